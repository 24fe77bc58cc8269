"""What can go wrong in event-time processing."""

from spark_source.errors import SparkSourceError
from tidegauge.event_time import describe_event_time


class MissingEventTimeError(SparkSourceError):
    """A row without event time, which no operator can place."""

    def __init__(self, segment: int, offset: int) -> None:
        self.segment = segment
        self.offset = offset
        super().__init__(
            f"the row at offset {offset} of segment {segment} has no event time; filter such "
            "rows out, or give them one, before the operator"
        )


class TimerLoopError(SparkSourceError):
    """A timer that sets itself, or that others set, without end.

    Attributes
    ----------
    key
        Whose timer it is.
    name
        The timer's name.
    time
        Event time in ms: where the key's time stands still, or when the firing was due that
        was one too many after the end of time.
    """

    def __init__(self, key: object, name: str, time: int) -> None:
        self.key = key
        self.name = name
        self.time = time
        super().__init__(
            f"timer {name!r} of key {key!r} was set again and again, most recently at "
            f"{describe_event_time(time)}; set it for a later time than ctx.time, or, if it is "
            'to repeat without end, use at_end="suspend"'
        )


class CallbackError(SparkSourceError):
    """A callback of a processor that raised; the cause is what it raised.

    Attributes
    ----------
    key
        Whose event or timer was at hand.
    time
        The logical time, in ms of event time.
    place
        Segment and offset of the event; None for a timer.
    timer
        The name of the timer; None for an event.
    """

    def __init__(
        self,
        key: object,
        time: int,
        *,
        place: tuple[int, int] | None = None,
        timer: str | None = None,
    ) -> None:
        self.key = key
        self.time = time
        self.place = place
        self.timer = timer
        where = (
            f"on_timer failed for timer {timer!r}"
            if place is None
            else f"on_event failed for the event at offset {place[1]} of segment {place[0]}"
        )
        super().__init__(
            f"{where}, key {key!r}, at {describe_event_time(time)}; nothing of this step is kept"
        )


class StateMismatchError(SparkSourceError):
    """State that was saved by an operator with other settings than the one that reads it.

    Attributes
    ----------
    setting
        What differs, for example ``buckets``.
    found, expected
        What the state was saved with, and what the operator has; None for no such setting.
    """

    def __init__(self, setting: str, found: object, expected: object) -> None:
        self.setting = setting
        self.found = found
        self.expected = expected
        if setting == "format":
            message = (
                f"the state was saved in format {found}, and this version keeps keys and buckets in "
                f"format {expected}; start with a new checkpoint, or finish the query with the "
                "version that began it"
            )
        else:
            message = (
                f"the state was saved with {setting} = {found!r}, and the query has {setting} = "
                f"{expected!r}; give the former again, or start with a new checkpoint"
            )
        super().__init__(message)
