"""A query as the one that declares until when a table is complete, in the driver's process."""

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from time import monotonic
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

import reader_client
import writer_client
from spark_source.checkpoints.checkpoint import Checkpoint, Promise, place_of
from spark_source.errors import InvalidOptionError, ReplacedTableError, TableTakenError
from spark_source.sink.engines import Delta, Engine, Format, Iceberg
from tidegauge.errors import InvalidTimeError, StreamSealedError
from tidegauge.event_time import END_OF_TIME, FIRST_TIME
from tidegauge.tables.declaring import Declarer, Memory
from tidegauge.tables.errors import TwoJobsError
from tidegauge.tables.history import check_jobs, has_taken_over, is_whole
from tidegauge.tables.logs import TableLog, open_log
from tidegauge.tables.notes import Note
from tidegauge.tables.service import check_stream

_log = logging.getLogger(__name__)
_TABLE = 0
"""The one segment that a table is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """The options of a query that appends to a table; see `append_to_table`.

    Attributes
    ----------
    column
        That ``event_time`` is, as the rows name it; None if it is more than a name.
    """

    table: str
    format: Format
    checkpoint: str
    event_time: str | None = None
    column: str | None = None
    output_delay_ms: int = 0
    job: str | None = None
    take_over: bool = False
    note_every_ms: int = 60_000
    url: str | None = None
    stream: str | None = None
    seal: bool = False
    token: str | None = field(default=None, repr=False)
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    catalog: Mapping[str, str] | None = field(default=None, repr=False)

    @property
    def word(self) -> str:
        """Where the checkpoint remembers this table; a batch may go to several."""
        place = place_of(self.table)
        if self.format == "iceberg":
            place = f"{(self.catalog or {}).get('name')}.{self.table}"
        return f"tidegauge-table-{sha256(place.encode()).hexdigest()[:16]}"

    def log(self) -> TableLog:
        """Open the table's log."""
        return open_log(self.table, storage_options=self.storage_options, catalog=self.catalog)

    def engine(self) -> Engine:
        """Choose how Spark writes the table."""
        if self.format == "delta":
            return Delta(self.table)
        if self.catalog is None or "name" not in self.catalog:
            cure = "needs the name that Spark knows the catalog by: catalog={'name': 'lake', …}"
            raise InvalidOptionError("catalog", cure)
        return Iceberg(f"{self.catalog['name']}.{self.table}")


class Plan(NamedTuple):
    """What is to be done with a batch.

    Attributes
    ----------
    is_known
        Whether the table has it already.
    note
        What its commit says.
    former
        Until when the table was complete before, ms; None if nothing was known.
    """

    is_known: bool
    note: Note
    former: int | None


class TableJob:
    """A query as the one that declares a table's time, in the driver's process.

    Parameters
    ----------
    options, engine
        Of the query.
    log
        Of the table.
    checkpoint
        Of the query; it remembers what the query has said, since a table keeps its notes for a
        while only.
    number
        Of the first batch of this run.
    """

    def __init__(
        self,
        options: TableOptions,
        engine: Engine,
        log: TableLog,
        checkpoint: Checkpoint,
        *,
        number: int,
    ) -> None:
        self._options, self._engine = options, engine
        self._log, self._checkpoint = log, checkpoint
        self._query = checkpoint.query_id()
        own = Note(
            job=options.stream or options.job or self._query,
            query=self._query,
            shared=options.stream is not None,
            column=options.column,
        )
        self._declarer = Declarer(own, self._remembered(), log)
        self._check_table()
        self._committed = log.committed(self._query)
        self._check_batch(number)
        self._may_take_over = options.take_over and not has_taken_over(
            self._query, log.newest_first()
        )
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._failure: Exception | None = None
        self._committed_at = float("-inf")
        self._service = (
            None if options.url is None else TableService(options, options.job or self._query)
        )

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Let a batch or the timer commit; raise what the timer failed with."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            yield

    def plan(self, frame: DataFrame, number: int) -> Plan:
        """Decide what becomes of a batch, or raise why none may be committed."""
        self._refresh()
        is_known = self._committed is not None and number <= self._committed
        if not is_known:
            self._take_turn(frame.sparkSession, frame.schema)
        if self._service is not None:
            # On a sealed stream the last batch is repeated, or one without rows comes.
            with suppress(StreamSealedError):
                self._service.open()
        former = self._declarer.time()
        return Plan(is_known, self._note(number, former), former)

    def begin(self, number: int) -> None:
        """Remember that a batch may be committed from now on."""
        self._remember(replace(self._declarer.memory, begun=number))

    def commit(self, frame: DataFrame, note: Note) -> None:
        """Commit rows, or none, and see that nobody else declared since they were planned.

        With a stream there are always rows, and a sealed one takes none.
        """
        planned_at = next((commit.version for commit in self._log.newest_first()), -1)
        former = self._declarer.time()
        assert note.batch is not None  # noqa: S101 (it is of a batch)
        if self._service is not None:
            self._service.open()
        self.begin(note.batch)
        self._append(frame, note)
        self._committed, self._committed_at = note.batch, monotonic()
        self._declarer.check_meanwhile(planned_at, former)

    def says_more(self, note: Note, former: int | None) -> bool:
        """Whether a commit without rows is worth it, for the time that it says."""
        return self._service is None and note.time is not None and note.time != former

    def commit_soon(self, spark: SparkSession, schema: StructType, note: Note) -> None:
        """Commit a note without rows, at once if the last commit is long enough ago."""
        wait_s = self._committed_at + self._options.note_every_ms / 1_000 - monotonic()
        if wait_s <= 0 or note.final:
            self.commit(spark.createDataFrame([], schema), note)
            return
        # By a timer, since no batch may follow: Spark starts none while its sources stay where they
        # are, and readers would wait for the last time before a pause until rows come again.
        self._timer = threading.Timer(wait_s, self._commit_now, (spark, schema, note.batch))
        self._timer.daemon = True
        self._timer.start()

    def note_to_service(self, spark: SparkSession, number: int) -> None:
        """Note the time of a batch to the service, behind its commit."""
        if self._service is not None:
            promise = self._checkpoint.batch(number).promise(
                self._options.output_delay_ms, strictly=True
            )
            self._service.note(promise, self._engine.newest_version(spark) + 1)

    def close(self) -> None:
        """Drop what is withheld, which the next run says, and stop to beat."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._service is not None:
                self._service.close()

    def _commit_now(self, spark: SparkSession, schema: StructType, number: int) -> None:
        """Commit what was withheld, unless a batch has come, or the query has stopped."""
        with self._lock:
            if self._timer is not threading.current_thread():
                return
            self._timer = None
            try:
                self._refresh()
                self._check_turn()
                note = self._note(number, self._declarer.time())
                self.commit(spark.createDataFrame([], schema), note)
            except Exception as error:  # noqa: BLE001 (raised by the next batch)
                self._failure = error

    def _append(self, frame: DataFrame, note: Note) -> None:
        options = self._engine.options(frame.sparkSession, note)
        self._engine.append(frame, options)
        self._refresh()

    def _refresh(self) -> None:
        """Read new commits, and remember what this query has said in them."""
        self._log.refresh()
        self._check_table()
        self._remember(self._declarer.recalled())

    def _remembered(self) -> Memory:
        """Read what the checkpoint remembers; from now on it remembers the table."""
        text = self._checkpoint.own_word(self._options.word)
        if text is not None:
            return Memory.from_text(text)
        memory = Memory(self._log.table_id)
        self._checkpoint.leave_own_word(self._options.word, memory.to_text())
        return memory

    def _remember(self, memory: Memory) -> None:
        if memory != self._declarer.memory:
            self._checkpoint.leave_own_word(self._options.word, memory.to_text())
            self._declarer.memory = memory

    def _note(self, number: int, former: int | None) -> Note:
        delay_ms = self._options.output_delay_ms
        promise = self._checkpoint.batch(number).promise(delay_ms, strictly=True)
        if self._service is not None:
            version = next((commit.version for commit in self._log.newest_first()), -1)
            promised = self._service.passed({_TABLE: version + 1})
        else:
            promised = END_OF_TIME if promise.is_end else promise.time
        until = max((time for time in (promised, former) if time is not None), default=None)
        is_end = until == END_OF_TIME
        said = {"until": None if is_end else until, "final": is_end, "batch": number}
        return self._declarer.own.model_copy(update=said)

    def _take_turn(self, spark: SparkSession, schema: StructType) -> None:
        """See that this query may declare; if it does not and may take over, do so, once.

        The note with which it takes over is a commit of its own. So what the former query says
        until then is known to all that is planned behind it, and what it commits later is found
        by both.
        """
        try:
            self._check_turn()
        except (TableTakenError, TwoJobsError):
            if not self._may_take_over:
                raise
            note = self._declarer.own.model_copy(update={"took_over": True})
            self._append(spark.createDataFrame([], schema), note)
            self._check_turn()
        self._may_take_over = False

    def _check_turn(self) -> None:
        """Raise if somebody else declares, or the notes have ended."""
        check_jobs(self._options.table, self._log.newest_first())
        problem = self._declarer.why_not()
        if problem is not None and self._options.take_over and not self._may_take_over:
            cure = "this query took over once already: start it with a new checkpoint"
            raise TableTakenError(self._options.table, problem, cure)
        if problem is not None:
            raise TableTakenError(self._options.table, problem)

    def _check_table(self) -> None:
        """Raise `ReplacedTableError` if the table is not the one of the query's batches."""
        if self._log.table_id != self._declarer.memory.table_id:
            raise ReplacedTableError(self._options.table)

    def _check_batch(self, number: int) -> None:
        """Raise if the first batch of this run may be in the table by other rows, or unseen."""
        memory, committed = self._declarer.memory, self._committed
        if memory.is_behind(number, committed):
            problem = (
                f"has batch {committed} of this query, and the checkpoint {self._options.checkpoint} "
                f"plans batch {number} anew: the checkpoint is older than the table"
            )
            cure = "start with a new checkpoint and take_over=True, and look for rows that come twice"
            raise TableTakenError(self._options.table, problem, cure)
        # Delta keeps the newest transaction of each query.
        keeps_batches = self._options.format == "delta" or is_whole(self._log.newest_first())
        if committed is None and number <= memory.begun and not keeps_batches:
            problem = (
                "its oldest snapshots have expired, so that a batch of this query may be in it"
            )
            cure = "expire fewer snapshots, and start with a new checkpoint and take_over=True"
            raise TableTakenError(self._options.table, problem, cure)


class TableService:
    """The stream of a table, as the query notes time to it and reads its marks."""

    def __init__(self, options: TableOptions, query: str) -> None:
        assert options.url is not None and options.stream is not None  # noqa: S101, PT018 (checked before)
        self._stream, self._seal = options.stream, options.seal
        self._client = reader_client.StreamClient(
            options.url, options.stream, token=options.token
        )
        try:
            check_stream(options.stream, self._client.describe().config)
        except ValueError as error:
            raise InvalidOptionError("stream", str(error)) from None
        self._reporter = writer_client.TimeReporter(
            options.url, options.stream, query, token=options.token, beat="always"
        )
        self._noted = FIRST_TIME
        self._has_left = False

    def open(self) -> None:
        """Let the stream wait for the query from now on; one that may not append holds nobody."""
        self._reporter.open()

    def passed(self, position: Mapping[int, int]) -> int | None:
        """Find the time of the newest mark that a position covers, ms."""
        found = self._client.marks_at_position(dict(position)).passed
        return None if found is None else found.lower

    def close(self) -> None:
        """Stop to beat; the query stays a writer of the stream, for its next run."""
        self._reporter.close()
        self._client.close()

    def note(self, promise: Promise, next_version: int) -> None:
        """Note what is promised behind all versions before one; at the end leave."""
        position = {_TABLE: next_version}
        if promise.is_end and not self._has_left:
            with suppress(StreamSealedError):  # it had left, and this run repeats its end
                # To leave promises nothing, and marks of others have to cover the last rows.
                self._note_again(position)
                self._reporter.leave(ended=self._seal)
            self._has_left = True
            if self._seal and not (seen := self._client.explain()).final:
                _log.warning("the query has ended. %s", seen.explanation.in_full)
        elif promise.time is not None:
            self._reporter.note_time(promise.time, position)
            self._noted = promise.time

    def _note_again(self, position: Mapping[int, int]) -> None:
        """Note the last time of this run behind a further position, or what a beat has noted."""
        try:
            self._reporter.note_time(self._noted, position)
        except InvalidTimeError as refused:
            if refused.stored_time is None:
                raise
            self._reporter.note_time(refused.stored_time, position)
