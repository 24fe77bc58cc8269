"""Ticks beside Spark's own Kafka source: how far that was planned, and which bound follows.

All of it is pure: what a batch carries is a function of the query's offset log and the marks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self, TypeVar

from spark_source.errors import LogReplacedError, UnfollowedTopicError, WrongCheckpointError
from tidegauge.marks import Mark
from tidegauge.topology import Position

_STEP_MS = 1_000
NO_RUN = ""
"""Stands in the offset of a query that had no batch yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """Where a source of ticks is, beside whatever source.

    Attributes
    ----------
    bound
        No batch after this one has an event below it, ms; None before the first mark.
    revision
        Of the mark that the bound is of; 0 before the first.
    run
        Another one in each start of each query, so that an entry of the offset log with this
        offset is of this query alone.
    """

    bound: int | None = None
    revision: int = 0
    run: str = NO_RUN

    def to_json(self) -> dict[str, Any]:
        """Write it with a stable order of keys: Spark compares the text."""
        return asdict(self)


_O = TypeVar("_O", bound=Offset)


@dataclass(frozen=True, slots=True)
class TickOffset(Offset):
    """Where a source of ticks beside a topic is.

    Attributes
    ----------
    stream_id
        Of the stream; another one cannot be followed on.
    topic
        Whose positions in the query's offset log say how far rows are read.
    topic_id
        Of the topic with which the query began; None if it was not known.
    """

    stream_id: str
    topic: str
    topic_id: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Write it, without the id of the topic where that is not known."""
        known = asdict(self)
        if self.topic_id is None:
            del known["topic_id"]
        return known

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Read it back; more may be stored with it, for people, which is not read."""
        return cls(**{name: one for name, one in stored.items() if name in _FIELDS})


_FIELDS = {one.name for one in fields(TickOffset)}
_ALWAYS = _FIELDS - {"topic_id"}


def check_log(location: str, ends: Sequence[Any], start: Offset) -> None:
    """Raise `WrongCheckpointError` unless an offset log's newest entry is of this source.

    Parameters
    ----------
    location
        Of the checkpoint.
    ends
        Of all sources in the newest batch; none if there was no batch yet.
    start
        Where Spark says that this source is.
    """
    if start.run == NO_RUN:
        if ends:
            raise WrongCheckpointError(location, "it has batches, and this query had none yet")
    elif not any(
        isinstance(end, dict) and start.to_json().items() <= end.items() for end in ends
    ):
        found = "has no batch" if not ends else "does not end with this query's newest batch"
        raise WrongCheckpointError(location, f"its offset log {found}")


def check_topic(start: TickOffset, found: str | None) -> None:
    """Raise `LogReplacedError` if a topic is another one than that with which the query began."""
    if start.topic_id is not None and found is not None and found != start.topic_id:
        raise LogReplacedError(found, start.topic_id)


def position_of(topic: str, ends: Sequence[Any]) -> Position | None:
    """Find how far a topic was planned to be read, in the ends of all sources of a batch.

    Where several sources read it, as far as all of them were. None if a source that was not
    planned yet may be the one.

    Raises
    ------
    UnfollowedTopicError
        If a source reads others besides, or a part of it, or none reads it.
    """
    read: list[Position] = []
    named: set[str] = set()
    for end in filter(_is_of_kafka, ends):
        if topic in end and len(end) > 1:
            others = ", ".join(sorted(end.keys() - {topic}))
            problem = f"one source reads {others} besides; give each topic a source of its own"
            raise UnfollowedTopicError(topic, problem)
        named |= end.keys()
        if topic in end:
            read.append({int(number): offset for number, offset in end[topic].items()})
            _check_partitions(topic, read[-1])
    if not read:
        if any(end is None or end == {} for end in ends):
            return None
        there = f"its Kafka sources read {', '.join(sorted(named))}" if named else "it has none"
        problem = f"no Kafka source of the query reads it, {there}; correct topic="
        raise UnfollowedTopicError(topic, problem)
    return {number: min(one.get(number, 0) for one in read) for number in read[0]}


def _check_partitions(topic: str, read: Position) -> None:
    """Refuse a source with ``assign``, as far as it shows: a mark may name what it does not read."""
    if read.keys() != set(range(len(read))):
        numbers = ", ".join(map(str, sorted(read)))
        problem = f"a source reads the partitions {numbers} alone; load it with subscribe"
        raise UnfollowedTopicError(topic, problem)


def without_followed_topics(ends: Sequence[Any]) -> list[Any]:
    """Leave out the ends of Kafka sources of whose rows a source of ticks gives the bound."""
    ours = (end for end in ends if isinstance(end, dict) and end.keys() >= _ALWAYS)
    topics = {end["topic"] for end in ours}
    return [end for end in ends if not (end and _is_of_kafka(end) and end.keys() <= topics)]


def _is_of_kafka(end: object) -> bool:
    """Return the offsets of Spark's Kafka source, ``{"topic": {"0": 40}}``, from those of others."""
    return isinstance(end, dict) and all(isinstance(one, dict) for one in end.values())


def next_offset(start: _O, passed: Mark | None, *, run: str, is_due: bool) -> _O:
    """Plan the end of the next batch; the start itself if time alone is not worth one yet.

    Parameters
    ----------
    start
        Where the source is.
    passed
        The newest mark that the rows planned so far cover.
    run
        Of this start of the query: its first batch always has a tick, since Spark does not store
        the watermark of each node.
    is_due
        Whether a step in time however small is worth a batch.
    """
    bound, revision = start.bound, start.revision
    if passed is not None and (bound is None or passed.lower > bound):
        bound, revision = passed.lower, passed.revision
    is_new_run = start.run != run
    rose = bound is not None and (start.bound is None or bound - start.bound >= _STEP_MS)
    if is_new_run or rose or (is_due and bound != start.bound):
        return replace(start, bound=bound, revision=revision, run=run)
    return start
