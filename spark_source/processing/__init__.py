"""Event-time processing without Spark: process functions, and what windows are.

An operator takes the state of a bucket of keys, the bound and rows, and returns the next state
and what came of it.
"""

from spark_source.processing.assigners import (
    LocalDayWindows,
    SessionWindows,
    SlidingWindows,
    session,
    sliding,
    tumbling,
)
from spark_source.processing.errors import (
    CallbackError,
    MissingEventTimeError,
    StateMismatchError,
    TimerLoopError,
)
from spark_source.processing.keyed_state import ListState, MapState, OpenContext, ValueState
from spark_source.processing.keys import bucket_of
from spark_source.processing.process import ProcessOperator, ProcessStep
from spark_source.processing.processor import Context, Event, EventTimeProcessor
from spark_source.processing.windowed import WindowSettings

__all__ = [
    "CallbackError",
    "Context",
    "Event",
    "EventTimeProcessor",
    "ListState",
    "LocalDayWindows",
    "MapState",
    "MissingEventTimeError",
    "OpenContext",
    "ProcessOperator",
    "ProcessStep",
    "SessionWindows",
    "SlidingWindows",
    "StateMismatchError",
    "TimerLoopError",
    "ValueState",
    "WindowSettings",
    "bucket_of",
    "session",
    "sliding",
    "tumbling",
]
