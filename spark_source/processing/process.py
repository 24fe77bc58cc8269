"""A processor's operator: rows are buffered and released in the order of event time.

It holds nothing between steps: a step takes the state of a bucket and returns the next. So a step
that fails leaves nothing behind, and every step is a restart.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from operator import eq, itemgetter
from typing import Any, Literal, TypeAlias

from spark_source.errors import InvalidOptionError
from spark_source.processing import blobs
from spark_source.processing.bounds import late_by, limit_of, time_of
from spark_source.processing.errors import CallbackError, TimerLoopError
from spark_source.processing.keyed_state import CurrentState, OpenContext
from spark_source.processing.keys import SELF_CANONICAL, Key, Row, canonical, key_order
from spark_source.processing.processor import Context, EventTimeProcessor, event_type
from spark_source.processing.timers import Timers
from tidegauge.event_time import END_OF_TIME, to_event_time

AtEnd: TypeAlias = Literal["drain", "suspend"]

# Of one key and name, set for now: more is a loop, since time stands still meanwhile.
_MOST_FIRINGS_AT_ONCE = 100
# Of one key and name after its last event: more is a timer that sets itself for ever.
_MOST_FIRINGS_AT_END = 100_000

_TIME = itemgetter(0)
_TIME_AND_PLACE = itemgetter(0, 1, 2)


@dataclass(slots=True)
class ProcessStep:
    """What a step of a processor's operator came to.

    Attributes
    ----------
    state
        The bucket's state from now on; None if there is none.
    next_bound
        The least bound at which a step without rows does something; None if there is none.
    out
        Rows of the main output, ordered by key and then by emission.
    side
        Rows of side outputs by name, in the same order.
    late
        Late rows as they came, each followed by how far it is below the bound in ms (`END_OF_TIME` at the
        end of time).
    joined, handled
        How many rows joined the buffer, and how many reached `EventTimeProcessor.on_event`.
    keys, buffered, timers
        How many keys have any state after the step, how many rows wait, how many timers.
    """

    state: bytes | None = None
    next_bound: int | None = None
    out: list[tuple[Any, ...]] = field(default_factory=list)
    side: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    late: list[Row] = field(default_factory=list)
    joined: int = 0
    handled: int = 0
    keys: int = 0
    buffered: int = 0
    timers: int = 0


_Saved: TypeAlias = tuple[float, list[Row], dict[str, int], dict[str, object]]
"""Of a key between steps: the time of what is first due in ms, rows that wait without their key
and in order, timers in ms, and states by name."""


class ProcessOperator:
    """Runs a processor over the keys of a bucket, step by step.

    Parameters
    ----------
    processor
        Of the user; it is opened here.
    columns
        The names of what follows key, event time, segment and offset in a row.
    at_end
        Whether timers fire at the end of time (``drain``) or stay pending (``suspend``).
    buckets
        How many buckets the keys are divided over; state remembers it.
    """

    def __init__(
        self,
        processor: EventTimeProcessor,
        *,
        columns: Sequence[str] = ("value",),
        at_end: AtEnd = "drain",
        buckets: int = 1,
    ) -> None:
        if at_end not in ("drain", "suspend"):
            raise InvalidOptionError("at_end", f"{at_end!r} is not one of drain, suspend")
        self._processor = processor
        self._event = event_type(tuple(columns))
        self._drains = at_end == "drain"
        self._settings = {"operator": "process", "columns": list(columns), "buckets": buckets}
        self._current = CurrentState()
        self._context = _KeyContext(processor.side_outputs)
        # Past __setattr__, which refuses what callbacks assign.
        vars(processor)["_is_open"] = False
        processor.open(OpenContext(self._current))
        vars(processor)["_is_open"] = True

    def step(self, state: bytes | None, bound: int | None, rows: Iterable[Row]) -> ProcessStep:
        """Raise the bound, and take rows.

        Parameters
        ----------
        state
            What the step before returned; None before the first.
        bound
            In ms; None before the first mark, `END_OF_TIME` at the end. It never falls.
        rows
            Key, event time in microseconds, segment, offset, and the columns. They are ordered
            by it; the bound, timers and ``ctx.time`` are in ms, and an event is of its
            millisecond there. Callbacks are handed the key as `canonical` returns it.

        Raises
        ------
        MissingEventTimeError
            If a row has no event time.
        CallbackError
            If a callback raised.
        TimerLoopError
            If timers set each other without end.
        """
        step = ProcessStep(side={name: [] for name in self._processor.side_outputs})
        keys = {} if state is None else self._restore(state)
        limit = limit_of(bound)
        arrived = self._take(rows, bound, step)
        due = {key for key, saved in keys.items() if saved[0] < limit}
        for key in sorted(due | arrived.keys(), key=key_order):
            saved = keys.pop(key, (inf, [], {}, {}))
            saved = self._run(key, saved, limit, arrived.get(key, []), step)
            if saved[0] < inf or saved[3]:
                keys[key] = saved
        self._finish(step, keys, bound)
        return step

    @staticmethod
    def _take(
        rows: Iterable[Row], bound: int | None, step: ProcessStep
    ) -> defaultdict[Key, list[Row]]:
        """Divide rows into late ones and those that join the buffers of their keys."""
        limit_us = limit_of(bound) * 1_000
        arrived = defaultdict[Key, list[Row]](list)
        for row in rows:
            time = time_of(row)
            if time < limit_us:
                step.late.append((*row, late_by(bound, time // 1_000)))
            else:
                arrived[canonical(row[0])].append(row[1:])
                step.joined += 1
        return arrived

    def _run(
        self, key: Key, saved: _Saved, limit: float, arrived: list[Row], step: ProcessStep
    ) -> _Saved:
        """Release what a key has below the limit, and let rows join its buffer."""
        _, buffer, due_times, named = saved
        timers = Timers(due_times)
        self._current.named = named
        self._context.enter(key, timers, step)
        released = bisect_left(buffer, limit * 1_000, key=_TIME)
        for row in buffer[:released]:
            self._fire_below(row[0] // 1_000)
            self._handle(row)
        step.handled += released
        if limit < inf:
            self._fire_below(limit)
        elif self._drains:
            self._drain()
        self._current.prune()
        buffer = buffer[released:]
        if arrived:
            buffer = _merge(buffer, arrived)
        due_times = timers.due_times()
        due = buffer[0][0] // 1_000 if buffer else inf
        if due_times:
            due = min(due, *due_times.values())
        return due, buffer, due_times, named

    def _handle(self, row: Row) -> None:
        context = self._context
        event = self._event(*row)
        context.turn_to_event(event.time_ms)
        try:
            self._processor.on_event(context.key, event, context)
        except Exception as error:
            place = event.segment, event.offset
            raise CallbackError(context.key, context.time_ms, place=place) from error

    def _fire_below(self, limit: float) -> None:
        """Fire the timers due below a time, also those set on the way."""
        pop_below = self._context.timers.pop_below
        while (timer := pop_below(limit)) is not None:
            self._fire(*timer)

    def _drain(self) -> None:
        """Fire all timers, also those set on the way, at the end of time."""
        context = self._context
        fired = Counter[str]()
        while (timer := context.timers.pop_below(inf)) is not None:
            due, name = timer
            fired[name] += 1
            if fired[name] > _MOST_FIRINGS_AT_END:
                raise TimerLoopError(context.key, name, due)
            self._fire(due, name)

    def _fire(self, due: int, name: str) -> None:
        context = self._context
        context.turn_to_timer(due, name)
        try:
            self._processor.on_timer(context.key, name, context)
        except TimerLoopError:
            raise
        except Exception as error:
            raise CallbackError(context.key, due, timer=name) from error

    def _restore(self, state: bytes) -> dict[Key, _Saved]:
        keys: dict[Key, _Saved] = blobs.restore(state, self._settings)
        if SELF_CANONICAL.issuperset(map(type, keys)):
            return keys
        # NaN is equal to itself as one object alone, which a pickle does not keep.
        return {canonical(key): saved for key, saved in keys.items()}

    def _finish(self, step: ProcessStep, keys: dict[Key, _Saved], bound: int | None) -> None:
        if not keys:
            return
        step.state = blobs.save(self._settings, keys)
        due = min(saved[0] for saved in keys.values())
        if due < inf and bound != END_OF_TIME:
            step.next_bound = min(int(due) + 1, END_OF_TIME)
        step.keys = len(keys)
        step.buffered = sum(len(saved[1]) for saved in keys.values())
        step.timers = sum(len(saved[2]) for saved in keys.values())


def _merge(buffer: list[Row], arrived: list[Row]) -> list[Row]:
    """Order rows by time, segment and offset.

    Rows of two streams may have the same: what they show as text then orders them, since values
    need have no order of their own, and where steps end must not decide. The text is in ASCII, as
    no two versions of Python print the same characters.
    """
    merged = sorted(buffer + arrived, key=_TIME_AND_PLACE)
    places = list(map(_TIME_AND_PLACE, merged))
    if any(map(eq, places, places[1:])):
        merged.sort(key=lambda row: (row[:3], ascii(row[3:])))
    return merged


class _KeyContext(Context):
    """The context of the key at hand."""

    def __init__(self, side_outputs: Iterable[str]) -> None:
        self.key: Key = None
        self.time_ms = 0
        self.timers = Timers({})
        self._side_outputs = frozenset(side_outputs)
        self._step = ProcessStep()
        self._fired_now = Counter[str]()

    def enter(self, key: Key, timers: Timers, step: ProcessStep) -> None:
        self.key = key
        self.timers = timers
        self._step = step
        self._fired_now.clear()

    def turn_to_event(self, time_ms: int) -> None:
        self.time_ms = time_ms
        self._fired_now.clear()

    def turn_to_timer(self, due: int, name: str) -> None:
        if due != self.time_ms:
            self.time_ms = due
            self._fired_now.clear()
        self._fired_now[name] += 1

    def emit(self, *values: object) -> None:
        self._step.out.append(values)

    def emit_to(self, output: str, *values: object) -> None:
        if output not in self._side_outputs:
            msg = f"{output!r} is not a side output; name it, with its columns, in side_outputs"
            raise ValueError(msg)
        self._step.side[output].append(values)

    def set_timer(self, name: str, time: int | datetime) -> None:
        due = to_event_time(time)
        if due <= self.time_ms:
            due = self.time_ms
            if self._fired_now[name] >= _MOST_FIRINGS_AT_ONCE:
                raise TimerLoopError(self.key, name, due)
        self.timers.set(name, due)

    def delete_timer(self, name: str) -> None:
        self.timers.delete(name)
