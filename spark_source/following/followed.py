"""What ticks lie beside: a topic or a table, and where its marks come from."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, Generic, Protocol, TypeVar

import reader_client
from spark_source.checkpoints.table_ticks import (
    TableTick,
    delta_version,
    iceberg_version,
    knows_snapshots,
)
from spark_source.checkpoints.ticks import Offset, TickOffset, check_topic, position_of
from spark_source.errors import (
    InvalidOptionError,
    ReplacedTableError,
    UnfollowedTableError,
    WrongCheckpointError,
)
from spark_source.following.mark_watch import SETTLED_S, MarkWatch, TopicWatch
from spark_source.options.sink import Place
from spark_source.source.starts import first_client
from tidegauge.event_time import describe_event_time
from tidegauge.marks import Mark
from tidegauge.tables.history import check_jobs, commit_in_effect, has_ended, is_whole
from tidegauge.tables.logs import TableLog, open_log
from tidegauge.topology import Position

_COMMITS = "commits"
_TABLE = 0
"""The one segment that a table is."""
_PAUSE_S = 0.5
_SILENT_S = 60.0
_log = logging.getLogger(__name__)
_O = TypeVar("_O", bound=Offset)


class Watch(Protocol):
    """Marks, as they come.

    Attributes
    ----------
    revision, watermark
        Of the newest; 0 and None before the first.
    explanation
        Why the query does not come to its next mark; empty if nothing is wrong.
    """

    revision: int
    watermark: int | None
    explanation: str

    def passed(self, position: Position | None) -> Mark | None:
        """Find the newest mark that a position covers, or raise what stopped the watching."""

    @property
    def is_settled(self) -> bool:
        """Whether event time has stood still for a second of wall clock."""

    def stop(self) -> None:
        """Stop watching."""


class Followed(Protocol, Generic[_O]):
    """What a source of ticks lies beside.

    Attributes
    ----------
    name
        For people.
    """

    @property
    def name(self) -> str:
        """See above."""

    def check(self, *, is_fresh: bool) -> None:
        """Raise what is wrong with it, before a query starts, or starts again."""

    def first(self) -> _O:
        """Make the offset before the first batch."""

    def offset(self, stored: Mapping[str, Any]) -> _O:
        """Read an offset back."""

    def planned(self, start: _O, ends: Sequence[Any]) -> Position | None:
        """Find how far it was planned to be read, in the ends of all sources of a batch.

        None if a source that was not planned yet may be the one, or none of it is covered.
        """

    def watch(self, start: _O) -> Watch:
        """Begin to watch its marks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service(Place):
    """Where the service is, and which stream its marks are of."""

    def client(self, stream_id: str) -> "reader_client.StreamClient":
        """Connect to the stream of an id."""
        return reader_client.StreamClient(
            self.url, self.stream, token=self.token, stream_id=stream_id
        )

    def stream_id(self) -> str:
        """Find out its id."""
        with first_client(self) as client:
            return client.describe().stream_id

    def check(self) -> None:
        """Raise unless it is there, and its events are elsewhere."""
        with first_client(self) as client:
            if client.describe().config.log != "external":
                cure = "has its events in the service's own log; load it with read_stream()"
                raise InvalidOptionError("stream", f"{self.stream} {cure}")


@dataclass(frozen=True, slots=True)
class FollowedTopic:
    """A topic that Spark's own Kafka source reads."""

    topic: str
    service: Service
    topic_id: str | None = None

    @property
    def name(self) -> str:
        """The stream."""
        return self.service.stream

    def check(self, *, is_fresh: bool) -> None:  # noqa: ARG002 (as a table)
        self.service.check()

    def first(self) -> TickOffset:
        return TickOffset(self.service.stream_id(), self.topic, topic_id=self.topic_id)

    def offset(self, stored: Mapping[str, Any]) -> TickOffset:
        found = TickOffset.from_json(stored)
        check_topic(found, self.topic_id)
        return found

    def planned(self, start: TickOffset, ends: Sequence[Any]) -> Position | None:  # noqa: ARG002 (as a table)
        return position_of(self.topic, ends)

    def watch(self, start: TickOffset) -> TopicWatch:
        return TopicWatch(self.service.client(start.stream_id))


class FollowedTable:
    """A table that Spark's source for its format reads.

    Parameters
    ----------
    table, storage_options, catalog
        As `tidegauge.tables.complete_until` takes them.
    service
        Whose marks are taken; those of the table's commits without it.
    has_start
        Whether the load names where it starts.
    """

    def __init__(
        self,
        table: str,
        *,
        checkpoint: str,
        storage_options: Mapping[str, str] | None = None,
        catalog: Mapping[str, str] | None = None,
        service: Service | None = None,
        has_start: bool = False,
    ) -> None:
        self.name = table
        self._checkpoint = checkpoint
        self._storage_options, self._catalog = storage_options, catalog
        self._service = service
        self._has_start = has_start
        self._log: TableLog | None = None

    def check(self, *, is_fresh: bool) -> None:
        log = self._opened()
        if (
            is_fresh
            and self._catalog is not None
            and not self._has_start
            and not is_whole(log.newest_first())
        ):
            cure = (
                "its oldest snapshots have expired, and Spark's source would begin with what the "
                "oldest one that is kept added; load with the option stream-from-timestamp"
            )
            raise InvalidOptionError("table", f"{self.name} {cure}")
        if self._service is not None:
            self._service.check()

    def first(self) -> TableTick:
        marks_from = _COMMITS if self._service is None else self._service.stream_id()
        return TableTick(self.name, self._opened().table_id, marks_from)

    def offset(self, stored: Mapping[str, Any]) -> TableTick:
        return TableTick.from_json(stored)

    def planned(self, start: TableTick, ends: Sequence[Any]) -> Position | None:
        log: Any = self._opened()
        if self._catalog is not None and not knows_snapshots(ends, log):
            log.refresh()
        if log.table_id != start.table_id:
            raise ReplacedTableError(self.name)
        if self._catalog is None:
            version = delta_version(self.name, start.table_id, ends)
        else:
            version = iceberg_version(self.name, start.table_id, ends, log)
        return None if version is None else {_TABLE: version + 1}

    def watch(self, start: TableTick) -> "TableWatch":
        asked = _COMMITS if self._service is None else self._service.stream_id()
        if asked != start.marks_from:
            before, now = _origin(start.marks_from), _origin(asked)
            problem = f"the marks of its batches are those of {before}, and now of {now}"
            cure = "follow those again, or start the query with a new checkpoint"
            raise WrongCheckpointError(self._checkpoint, problem, cure)
        marks = None
        if self._service is not None:
            marks = MarkWatch(self._service.client(start.marks_from))
        return TableWatch(self._opened(), start, marks)

    def _opened(self) -> TableLog:
        if self._log is None:
            self._log = open_log(
                self.name, storage_options=self._storage_options, catalog=self._catalog
            )
        return self._log


class TableWatch:
    """Knows the marks of a table, by its commits or by the service.

    Commits right behind a position that brought no rows are covered at once. The table is looked
    at twice a second at most. A mark of a commit has the revision of the position behind it.
    """

    explanation = ""

    def __init__(self, log: TableLog, start: TableTick, marks: MarkWatch | None) -> None:
        self._log = log
        self._table_id = start.table_id
        self._bound = start.bound
        self._marks = marks
        self._refreshed_at = self._rose_at = self._begun_at = monotonic()
        self._is_warned = False
        self.revision = 0
        self.watermark: int | None = None
        self._find_newest()

    def passed(self, position: Position | None) -> Mark | None:
        self._refresh()
        found = None
        if self._marks is not None:
            found = self._marks.passed(position and self._reached(position))
            self.revision, self.watermark = self._marks.revision, self._marks.watermark
        elif position is not None:
            found = self._passed(position)
        if found is None:
            self._warn_once()
        return found

    @property
    def is_settled(self) -> bool:
        if self._marks is not None:
            return self._marks.is_settled
        return monotonic() - self._rose_at >= SETTLED_S

    def stop(self) -> None:
        if self._marks is not None:
            self._marks.stop()

    def _reached(self, position: Position) -> Position:
        newest = next(self._log.covered(position[_TABLE] - 1), None)
        return position if newest is None else {_TABLE: newest.version + 1}

    def _passed(self, position: Position) -> Mark | None:
        noted = commit_in_effect(self._log.covered(position[_TABLE] - 1))
        if noted is None or noted.time is None:
            return None
        if self._bound is not None and noted.time < self._bound:
            at, before = describe_event_time(noted.time), describe_event_time(self._bound)
            problem = (
                f"the query has come to {before}, and a restore, a rollback or an overwrite has "
                f"taken its time back to {at}. Start with a new checkpoint"
            )
            raise UnfollowedTableError(self._log.name, problem)
        self._bound = noted.time
        reached = noted.version + 1
        return Mark(reached, noted.time, noted.time, {_TABLE: reached})

    def _refresh(self) -> None:
        if monotonic() - self._refreshed_at < _PAUSE_S:
            return
        self._refreshed_at = monotonic()
        self._log.refresh()
        if self._log.table_id != self._table_id:
            raise ReplacedTableError(self._log.name)
        self._find_newest()

    def _find_newest(self) -> None:
        if self._marks is not None:
            self.revision, self.watermark = self._marks.revision, self._marks.watermark
            return
        check_jobs(self._log.name, self._log.newest_first())
        noted = commit_in_effect(self._log.newest_first())
        had_notes = self._bound is not None
        if noted is None and has_ended(self._log.newest_first(), had_notes=had_notes):
            problem = (
                "its notes were ended by a restore, a rollback or an overwrite. Let its job take "
                "over (take_over=True), and start the query with a new checkpoint; of a Delta "
                "table without startingVersion"
            )
            raise UnfollowedTableError(self._log.name, problem)
        if noted is not None and noted.time != self.watermark:
            self.revision, self.watermark = noted.version + 1, noted.time
            self._rose_at = monotonic()

    def _warn_once(self) -> None:
        """Say once why the query has no watermark, if it had none for long."""
        if (
            self._is_warned
            or self._bound is not None
            or monotonic() - self._begun_at < _SILENT_S
        ):
            return
        self._is_warned = True
        why = "what is read of it does not reach its first mark yet"
        if self.watermark is None and self._marks is not None:
            why = "its stream has no mark yet; ask `tidegauge why` who holds it"
        elif self.watermark is None:
            why = (
                "no commit of it says how far it is complete; write it with append_to_table(), "
                "or with the metadata that tidegauge.tables.note() makes"
            )
        _log.warning("table %s gives no watermark: %s", self._log.name, why)


def _origin(marks_from: str) -> str:
    return "the table's commits" if marks_from == _COMMITS else f"stream {marks_from}"
