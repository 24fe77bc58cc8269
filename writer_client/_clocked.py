"""A strategy with its clocks: it is shown what is written."""

import time
import typing
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from itertools import repeat, starmap

from tidegauge.event_time import END_OF_TIME
from writer_client.strategies import Now, ObservedEvent, Strategy

if typing.TYPE_CHECKING:
    import pyarrow as pa


def wall_ms() -> int:
    """Read the wall clock."""
    return time.time_ns() // 1_000_000


class RunningClock:
    """A monotonic clock that stops while somebody is blocked."""

    def __init__(self, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock_ns = clock_ns
        self._blocked = 0
        self._blocked_since_ns = 0
        self._stopped_ns = 0

    def now_ms(self) -> int:
        """Read the clock."""
        now_ns = self._blocked_since_ns if self._blocked else self._clock_ns()
        return (now_ns - self._stopped_ns) // 1_000_000

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the clock; it goes on when the last of those who are blocked does."""
        if self._blocked == 0:
            self._blocked_since_ns = self._clock_ns()
        self._blocked += 1
        try:
            yield
        finally:
            self._blocked -= 1
            if self._blocked == 0:
                self._stopped_ns += self._clock_ns() - self._blocked_since_ns


class ClockedStrategy:
    """A strategy with its clocks. Its owner calls it under one lock, and keeps the last noted time."""

    def __init__(
        self,
        strategy: Strategy,
        *,
        wall_ms: Callable[[], int] = wall_ms,
        running: RunningClock | None = None,
    ) -> None:
        self._strategy = strategy
        self._wall_ms = wall_ms
        self.running = running or RunningClock()
        self.max_future_skew_ms: int | None = None
        """The stream's, once it is known."""
        self.latest_ms = END_OF_TIME - 1
        """An event above this was too far in the future when the clocks were read last."""

    def observe(self, event: ObservedEvent) -> bool:
        """Show the strategy an event that is written; return whether to note right after it."""
        return self._strategy.observe(event, self._now())

    def time(self, last_time: int | None) -> int | None:
        """Return what to note, if it is above what was noted last."""
        time = self._strategy.time(self._now())
        return time if time is not None and (last_time is None or time > last_time) else None

    @property
    def is_idle(self) -> bool:
        """Whether the strategy says that nobody should wait for the writer."""
        return self._strategy.is_idle(self._now())

    @property
    def future_events(self) -> int:
        """How many events the strategy left out, because their times were too far in the future."""
        return self._strategy.future_events

    def _now(self) -> Now:
        now_ms, skew_ms = self._wall_ms(), self.max_future_skew_ms
        self.latest_ms = END_OF_TIME - 1 if skew_ms is None else now_ms + skew_ms
        return Now(now_ms, self.running.now_ms(), self.latest_ms)


def observed(events: "pa.RecordBatch", source: Hashable) -> Iterator[ObservedEvent]:
    """Make what strategies are shown of many events."""
    columns = (events.column(name).to_pylist() for name in ("event_time", "key", "value"))
    return starmap(ObservedEvent, zip(*columns, repeat(source), strict=False))
