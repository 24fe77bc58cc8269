"""The process function that users write, and what its callbacks are handed."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, make_dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from keyword import iskeyword
from typing import Any, ClassVar

from spark_source.errors import InvalidOptionError
from spark_source.processing.keyed_state import OpenContext
from spark_source.processing.keys import Key

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Event:
    """A row, as a processor sees it; further attributes are the columns that were asked for.

    Attributes
    ----------
    segment, offset
        Its place in the stream.
    """

    _time_us: int
    segment: int
    offset: int

    @property
    def time_ms(self) -> int:
        """Event time in ms, which ``ctx.time_ms`` is too."""
        return self._time_us // 1_000

    @property
    def time(self) -> datetime:
        """Event time as an aware datetime, with the microseconds that its column has."""
        return _EPOCH + timedelta(microseconds=self._time_us)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (columns hold anything)
        msg = f"the event has no column {name!r}; ask for it in columns=[…]"
        raise AttributeError(msg)

    def __reduce__(self) -> tuple[Any, ...]:
        # Processors may keep events in their state, and the class is made at run time.
        values = [getattr(self, field.name) for field in fields(self)]
        return _make_event, (tuple(field.name for field in fields(self))[3:], values)


def _make_event(columns: tuple[str, ...], values: Sequence[Any]) -> Event:
    return event_type(columns)(*values)


@cache
def event_type(columns: tuple[str, ...]) -> type[Event]:
    """Make the class of events with these columns.

    Raises
    ------
    InvalidOptionError
        If a column's name cannot be an attribute of an event.
    """
    taken = {"time", "time_ms", "_time_us", "segment", "offset"}
    for column in columns:
        if not column.isidentifier() or iskeyword(column) or column in taken:
            raise InvalidOptionError(
                "columns", f"{column!r} cannot be an attribute of an event; rename the column"
            )
        taken.add(column)
    return make_dataclass("Event", columns, bases=(Event,), slots=True)


class Context(ABC):
    """What a callback may do, for the key at hand.

    Attributes
    ----------
    time_ms
        The time of the event or timer at hand. There is no other clock.
    """

    time_ms: int

    @property
    def time(self) -> datetime:
        """The time of the event or timer at hand, as an aware datetime of whole milliseconds."""
        return _EPOCH + timedelta(milliseconds=self.time_ms)

    @abstractmethod
    def emit(self, *values: object) -> None:
        """Emit a row to the main output."""

    @abstractmethod
    def emit_to(self, output: str, *values: object) -> None:
        """Emit a row to one of the processor's ``side_outputs``."""

    @abstractmethod
    def set_timer(self, name: str, time: int | datetime) -> None:
        """Have `EventTimeProcessor.on_timer` called at a time; a timer pending by this name moves.

        At one time events come before timers, and timers in the order of setting. A time that is
        not after `time` means now: after all events of this time and the timers due already.

        Parameters
        ----------
        name
            Of the timer; a key has at most one pending by it.
        time
            Event time in ms, or an aware datetime, whose microseconds are floored.

        Raises
        ------
        TimerLoopError
            If a timer sets it for now when it has fired 100 times already at this time.
        """

    @abstractmethod
    def delete_timer(self, name: str) -> None:
        """Delete a timer, if it is pending."""


class EventTimeProcessor(ABC):
    """A keyed process function that is called in the order of event time.

    Subclasses keep what they know of a key in the states that `open` asks for. All keys share
    other attributes, which are lost between steps: to assign one in a callback is an error.

    Attributes
    ----------
    output
        The columns of the main output, as Spark writes a schema.
    side_outputs
        The columns of further outputs, by name.

    Examples
    --------
    >>> class OfflineDevices(EventTimeProcessor):
    ...     output = "device string, at timestamp, status string"
    ...
    ...     def open(self, ctx):
    ...         self.is_offline = ctx.value("is_offline")
    ...
    ...     def on_event(self, key, event, ctx):
    ...         if self.is_offline.get():
    ...             ctx.emit(key, ctx.time, "online")
    ...         self.is_offline.clear()
    ...         ctx.set_timer("timeout", ctx.time + timedelta(minutes=30))
    ...
    ...     def on_timer(self, key, name, ctx):
    ...         ctx.emit(key, ctx.time, "offline")
    ...         self.is_offline.set(True)
    """

    output: ClassVar[str] = ""
    side_outputs: ClassVar[Mapping[str, str]] = {}
    _is_open: ClassVar[bool] = False

    def __setattr__(self, name: str, value: object) -> None:
        # The object that is there already is no change: `self.items += […]` of a list that is state.
        if self._is_open and vars(self).get(name, self) is not value:
            msg = (
                f"{type(self).__name__} assigns self.{name} in a callback; all keys share it, and "
                f"it is lost between batches. Keep what belongs to a key in ctx.value({name!r}) of "
                "open(), and assign there what does not change"
            )
            raise AttributeError(msg)
        super().__setattr__(name, value)

    def open(self, ctx: OpenContext) -> None:  # noqa: B027 (not every processor has state)
        """Ask for state, before the first callback."""

    @abstractmethod
    def on_event(self, key: Key, event: Event, ctx: Context) -> None:
        """Handle an event: after all earlier ones of its key, and the timers due before it."""

    def on_timer(self, key: Key, name: str, ctx: Context) -> None:
        """Handle a timer, which is no longer pending."""
        msg = f"{type(self).__name__} sets timer {name!r} for {key!r} and has no on_timer"
        raise NotImplementedError(msg)
