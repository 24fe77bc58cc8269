"""Watermark strategies: what a writer notes by itself, from the events that it writes.

Pass one to `Writer`, `TimeReporter` or their asynchronous forms: ``Writer(…, strategy=…)``. Each writer
needs an instance of its own. What a strategy says is noted only if it is above the last noted time.
Prefer `Outstanding` wherever the application knows what it has not written yet: all others guess.

A noted time t means that nothing below t will follow, where a watermark t of Flink means nothing at or
below t: a strategy of the same name notes Flink's watermark plus 1 ms.

No strategy does I/O or reads a clock: `Now` is handed in.
"""

import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from datetime import datetime, timedelta
from math import ceil, log2
from typing import NamedTuple

from tidegauge.event_time import END_OF_TIME, to_event_time

__all__ = [
    "BoundedOutOfOrderness",
    "LatenessQuantile",
    "MonotonousTimestamps",
    "Now",
    "ObservedEvent",
    "Outstanding",
    "PerPartition",
    "Punctuated",
    "Strategy",
    "TimeLag",
    "WithIdleness",
]

_MILLISECOND = timedelta(milliseconds=1)


class ObservedEvent(NamedTuple):
    """An event as strategies see it, at the moment it is written.

    Attributes
    ----------
    event_time
        In ms; None if it has none.
    key, value
        What was written; empty where a `TimeReporter` was not shown it.
    source
        The partition of the writer's own input that the event comes from, for `PerPartition`.
    """

    event_time: int | None
    key: str = ""
    value: bytes = b""
    source: Hashable = None


class Now(NamedTuple):
    """The clocks, read once.

    Attributes
    ----------
    wall_ms
        Wall clock, since the epoch.
    running_ms
        A monotonic clock that stops while the writer is blocked by back-pressure.
    latest_ms
        An event above this is too far in the future to be believed: the wall clock plus
        ``max_future_skew_ms`` of the stream.
    """

    wall_ms: int
    running_ms: int
    latest_ms: int = END_OF_TIME - 1


class Strategy(ABC):
    """What a writer notes. Derive from it for a strategy of your own.

    The writer calls all methods under one lock, in the order in which it writes.
    """

    def observe(self, event: ObservedEvent, now: Now) -> bool:  # noqa: ARG002
        """Record an event that is written; return whether `time` should be noted right after it."""
        return False

    @abstractmethod
    def time(self, now: Now) -> int | None:
        """Return the time below which nothing will follow, ms; None if that is not known."""

    def is_idle(self, now: Now) -> bool:  # noqa: ARG002
        """Return whether readers should not wait for this writer: then it stops beating."""
        return False

    @property
    def future_events(self) -> int:
        """How many events were left out because their times were too far in the future."""
        return 0


class Outstanding(Strategy):
    """The oldest item that is begun and not done, or the clock less a lag: for writers that know.

    Begin an item when the application first knows of it, and call `done` after its event was
    written; an item that will never be written is done as well. Both may be called by any thread.

    Parameters
    ----------
    lag
        How much older than the clock an item can be when it begins: longer than the way from
        where its time was made to `begin`.

    Examples
    --------
    >>> flights = Outstanding(lag=timedelta(milliseconds=100))
    >>> flights.time(Now(wall_ms=5_000, running_ms=0))
    4900
    >>> flights.begin("UA 1545", event_time=4_950)
    >>> flights.time(Now(wall_ms=9_000, running_ms=4_000))
    4950
    >>> flights.done("UA 1545")  # after writer.write(…)
    >>> flights.time(Now(wall_ms=9_000, running_ms=4_000))
    8900
    """

    def __init__(self, lag: timedelta = timedelta(seconds=1)) -> None:
        self._lag_ms = _duration_ms("lag", lag)
        self._lock = threading.Lock()
        self._begun: dict[Hashable, int] = {}

    def begin(self, item: Hashable, event_time: int | datetime) -> None:
        """Begin an item; nothing above its time is noted until it is done.

        Raises ``ValueError`` if an item of that name has begun and is not done.
        """
        time = to_event_time(event_time)
        with self._lock:
            if item in self._begun:
                msg = (
                    f"item {item!r} has begun before; call done, or give each a name of its own"
                )
                raise ValueError(msg)
            self._begun[item] = time

    def done(self, item: Hashable) -> None:
        """End an item: it is written, or never will be. ``KeyError`` if it has not begun."""
        with self._lock:
            del self._begun[item]

    def time(self, now: Now) -> int:
        """Return the least of the clock less the lag and what has begun."""
        with self._lock:
            return min([now.wall_ms - self._lag_ms, *self._begun.values()])


class TimeLag(Strategy):
    """The wall clock less a lag, also without events, so that no reader waits for a quiet writer.

    Unsafe in a backlog: whatever is older than the lag when it is written is late.

    Parameters
    ----------
    lag
        How much older than the clock an event can be when it is written.

    Examples
    --------
    >>> TimeLag(timedelta(seconds=5)).time(Now(wall_ms=60_000, running_ms=0))
    55000
    """

    def __init__(self, lag: timedelta) -> None:
        self._lag_ms = _duration_ms("lag", lag)

    def time(self, now: Now) -> int:
        """Return the clock less the lag."""
        return now.wall_ms - self._lag_ms


class _Newest(Strategy):
    """What keeps the maximum of the times it is shown, but for those too far in the future."""

    def __init__(self) -> None:
        self._newest: int | None = None
        self._risen_ms = 0
        """When the maximum rose, on the clock that stops under back-pressure."""
        self._future_events = 0

    @property
    def future_events(self) -> int:
        """How many events were left out because their times were too far in the future."""
        return self._future_events

    def _raise_to(self, time: int, now: Now) -> bool:
        """Raise the maximum to a time; return whether it rose."""
        if time > now.latest_ms:
            self._future_events += 1
            return False
        if self._newest is not None and time <= self._newest:
            return False
        self._newest, self._risen_ms = time, now.running_ms
        return True


class BoundedOutOfOrderness(_Newest):
    """The maximum of the event times less a delay.

    An event that is out of order by at most the delay is never late.

    Parameters
    ----------
    delay
        How much older than the newest event before it an event can be.
    advance_on_idle : bool, default False
        Go on with the clock while the maximum does not rise, up to the wall clock less the delay. An event
        that comes later by the clock than by its time can be late then.

    Examples
    --------
    >>> strategy = BoundedOutOfOrderness(timedelta(milliseconds=10))
    >>> now = Now(wall_ms=20_000, running_ms=0)
    >>> for time in 12_345, 12_300, 12_340, 12_280:
    ...     _ = strategy.observe(ObservedEvent(time), now)
    >>> strategy.time(now)
    12335
    """

    def __init__(self, delay: timedelta, *, advance_on_idle: bool = False) -> None:
        super().__init__()
        self._delay_ms = _duration_ms("delay", delay)
        self._advance_on_idle = advance_on_idle

    def observe(self, event: ObservedEvent, now: Now) -> bool:
        """Record an event; it is noted in time, not at once."""
        if event.event_time is not None:
            self._raise_to(event.event_time, now)
        return False

    def time(self, now: Now) -> int | None:
        """Return the maximum less the delay."""
        if self._newest is None:
            return None
        time = self._newest - self._delay_ms
        if not self._advance_on_idle:
            return time
        advanced = time + now.running_ms - self._risen_ms
        return max(time, min(advanced, now.wall_ms - self._delay_ms))


class MonotonousTimestamps(BoundedOutOfOrderness):
    """The maximum of the event times: for events in order; an older one is late."""

    def __init__(self, *, advance_on_idle: bool = False) -> None:
        super().__init__(timedelta(0), advance_on_idle=advance_on_idle)


class LatenessQuantile(_Newest):
    """The maximum of the event times less a quantile of how late events were behind it.

    It learns its delay from this writer's own events, and notes nothing before it has seen as many as
    the quantile takes: 1 000 for 0.999. About one event in so many is late.

    Parameters
    ----------
    quantile : float, default 0.999
        Which share of the events is not to be late.
    """

    def __init__(self, quantile: float = 0.999) -> None:
        super().__init__()
        if not 0 < quantile < 1:
            msg = f"quantile is {quantile}; it lies between 0 and 1, such as 0.999"
            raise ValueError(msg)
        self._quantile = quantile
        self._warm_up = round(1 / (1 - quantile))
        self._count = 0
        self._lateness: Counter[int] = Counter()
        """How many events were at most so late, in ms, and later than the next smaller of these."""

    def observe(self, event: ObservedEvent, now: Now) -> bool:
        """Record an event, and how late it is; it is noted in time, not at once."""
        time = event.event_time
        if time is not None:
            late_ms = 0 if self._newest is None else max(0, self._newest - time)
            self._lateness[_rounded_up(late_ms)] += 1
            self._count += 1
            self._raise_to(time, now)
        return False

    def time(self, now: Now) -> int | None:  # noqa: ARG002
        """Return the maximum less the quantile, once there is one."""
        if self._newest is None or self._count < self._warm_up:
            return None
        left = self._quantile * self._count
        for late_ms, count in sorted(self._lateness.items()):
            left -= count
            if left <= 0:
                return self._newest - late_ms
        return self._newest - max(self._lateness)


class Punctuated(_Newest):
    """What the events themselves say: the time of a marker is noted right after it.

    Parameters
    ----------
    extract
        Returns for an event the time below which nothing will follow; None if it does not say.

    Examples
    --------
    >>> def closed_hour(event: ObservedEvent) -> int | None:
    ...     return event.event_time if event.value == b"hour is closed" else None
    >>> strategy = Punctuated(closed_hour)
    >>> now = Now(wall_ms=9_000, running_ms=0)
    >>> strategy.observe(ObservedEvent(7_000, value=b"reading"), now)
    False
    >>> strategy.observe(ObservedEvent(7_200, value=b"hour is closed"), now)
    True
    >>> strategy.time(now)
    7200
    """

    def __init__(self, extract: Callable[[ObservedEvent], int | datetime | None]) -> None:
        super().__init__()
        self._extract = extract

    def observe(self, event: ObservedEvent, now: Now) -> bool:
        """Record what an event says; return whether that is a time above those before it."""
        time = self._extract(event)
        return time is not None and self._raise_to(to_event_time(time), now)

    def time(self, now: Now) -> int | None:  # noqa: ARG002
        """Return what the events said last."""
        return self._newest


class WithIdleness(Strategy):
    """Another strategy that is idle after a time without events.

    That time passes only while the writer can send, not under back-pressure. Any event ends the
    idleness. A writer that is idle does not beat, so that the service drops it after
    ``aggregation_timeout_ms`` if others go on; it is live again with its next time above the watermark.

    Parameters
    ----------
    strategy
        What returns the time.
    after
        How long there must be no event.
    """

    def __init__(self, strategy: Strategy, after: timedelta) -> None:
        self._strategy = strategy
        self._after_ms = _duration_ms("after", after)
        if self._after_ms == 0:
            msg = f"after is {after}; give it a time above zero, or leave WithIdleness out"
            raise ValueError(msg)
        self._since_ms: int | None = None

    def observe(self, event: ObservedEvent, now: Now) -> bool:
        """Record an event, which ends the idleness."""
        self._since_ms = now.running_ms
        return self._strategy.observe(event, now)

    def time(self, now: Now) -> int | None:
        """Return what the other strategy returns."""
        return self._strategy.time(now)

    def is_idle(self, now: Now) -> bool:
        """Return whether there was no event for ``after``; before the first, since the first call."""
        if self._since_ms is None:
            self._since_ms = now.running_ms
        return now.running_ms - self._since_ms >= self._after_ms

    @property
    def future_events(self) -> int:
        """How many events the other strategy left out."""
        return self._strategy.future_events


class PerPartition(Strategy):
    """A strategy for each partition of the writer's own input, joined by their minimum.

    An event says where it comes from: ``write(…, source=3)``. A partition that is registered and has
    no time yet holds; one that is idle does not. Once all are idle, the maximum is noted. Partitions
    may be registered, removed and marked by any thread.

    Parameters
    ----------
    make
        Makes the strategy of a partition.
    partitions
        Those that are waited for from the beginning; others when their first event comes.

    Examples
    --------
    >>> strategy = PerPartition(MonotonousTimestamps, partitions=[0, 1])
    >>> now = Now(wall_ms=9_000, running_ms=0)
    >>> _ = strategy.observe(ObservedEvent(5_000, source=0), now)
    >>> print(strategy.time(now))
    None
    >>> strategy.mark_idle(1)
    >>> strategy.time(now)
    5000
    """

    def __init__(
        self, make: Callable[[], Strategy], partitions: Iterable[Hashable] = ()
    ) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._strategies: dict[Hashable, Strategy] = {one: make() for one in partitions}
        self._marked: set[Hashable] = set()

    def register(self, partition: Hashable) -> None:
        """Wait for a partition from now on."""
        with self._lock:
            self._of(partition)

    def remove(self, partition: Hashable) -> None:
        """Wait for a partition no more: another reads it now. An unknown partition is no error."""
        with self._lock:
            self._strategies.pop(partition, None)
            self._marked.discard(partition)

    def mark_idle(self, partition: Hashable) -> None:
        """Do not wait for a partition until its next event."""
        with self._lock:
            self._of(partition)
            self._marked.add(partition)

    def observe(self, event: ObservedEvent, now: Now) -> bool:
        """Show an event to the strategy of its partition."""
        with self._lock:
            self._marked.discard(event.source)
            return self._of(event.source).observe(event, now)

    def time(self, now: Now) -> int | None:
        """Return the minimum over those that are not idle, or the maximum if all are."""
        with self._lock:
            active = self._active(now)
            times = [one.time(now) for one in active or self._strategies.values()]
        known = [time for time in times if time is not None]
        if active:
            return min(known) if len(known) == len(times) else None
        return max(known, default=None)

    def is_idle(self, now: Now) -> bool:
        """Return whether all partitions are idle."""
        with self._lock:
            return bool(self._strategies) and not self._active(now)

    @property
    def future_events(self) -> int:
        """How many events the strategies left out."""
        with self._lock:
            return sum(one.future_events for one in self._strategies.values())

    def _of(self, partition: Hashable) -> Strategy:
        strategy = self._strategies.get(partition)
        if strategy is None:
            strategy = self._strategies[partition] = self._make()
        return strategy

    def _active(self, now: Now) -> list[Strategy]:
        return [
            strategy
            for partition, strategy in self._strategies.items()
            if partition not in self._marked and not strategy.is_idle(now)
        ]


def _duration_ms(name: str, duration: timedelta) -> int:
    """Convert to milliseconds, rounded up: a promise must not be too strong."""
    if not isinstance(duration, timedelta):
        msg = f"{name} is {duration!r}; pass a timedelta, such as timedelta(seconds=5)"
        raise TypeError(msg)
    if duration < timedelta(0):
        msg = f"{name} is {duration}; it cannot be negative"
        raise ValueError(msg)
    return -(-duration // _MILLISECOND)


def _rounded_up(late_ms: int) -> int:
    """Round up by at most 9 %, to one of eight numbers in each doubling: so few need be kept."""
    return ceil(2 ** (ceil(8 * log2(late_ms)) / 8)) if late_ms else 0
