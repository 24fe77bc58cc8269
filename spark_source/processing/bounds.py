"""The bound of a step: no row that is on time and still to come lies below it.

None means no mark yet, ``END_OF_TIME`` for the end, which is above every time, its own too.
"""

from math import inf

from spark_source.processing.errors import MissingEventTimeError
from spark_source.processing.keys import Row
from tidegauge.event_time import END_OF_TIME


def limit_of(bound: int | None) -> float:
    """Turn a bound into what times are compared with: what is below it is final."""
    if bound is None:
        return -inf
    return inf if bound == END_OF_TIME else bound


def late_by(bound: int | None, time: int) -> int:
    """Return how far a late row is below the bound, in ms; ``END_OF_TIME`` at the end of time."""
    if bound is None or bound == END_OF_TIME:
        return END_OF_TIME
    return min(bound - time, END_OF_TIME)


def time_of(row: Row) -> int:
    """Take the event time of a row."""
    time: int | None = row[1]
    if time is None:
        raise MissingEventTimeError(segment=row[2], offset=row[3])
    return time
