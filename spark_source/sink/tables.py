"""Appending a query's batches to a table, each once, with a note of until when it is complete."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Literal, NamedTuple, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

import reader_client
import writer_client
from spark_source.checkpoints.checkpoint import Checkpoint, Promise
from spark_source.errors import InvalidOptionError, ReplacedTableError, TableTakenError
from tidegauge.errors import InvalidTimeError, StreamSealedError
from tidegauge.event_time import END_OF_TIME, FIRST_TIME, describe_event_time
from tidegauge.tables.errors import TwoJobsError
from tidegauge.tables.history import (
    check_jobs,
    declaring,
    has_ended,
    has_taken_over,
    is_whole,
    standing,
)
from tidegauge.tables.logs import TableLog, open_log
from tidegauge.tables.notes import Note
from tidegauge.tables.service import check_stream

Format = Literal["delta", "iceberg"]
_TABLE = 0
"""The one segment that a table is."""
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_WAP = "spark.wap.id", "spark.wap.branch"
"""With them Iceberg commits to no branch, or to another one."""
_OWN_FILE = "tidegauge-table"
"""In the checkpoint: which table its batches went to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """What a query that appends to a table was told; see `append_to_table`."""

    table: str
    format: Format
    checkpoint: str
    event_time: str | None = None
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

    def log(self) -> TableLog:
        """Open the table's log."""
        return open_log(self.table, storage_options=self.storage_options, catalog=self.catalog)

    def engine(self) -> "Engine":
        """Choose how Spark writes the table."""
        if self.format == "delta":
            return Delta(self.table)
        if self.catalog is None or "name" not in self.catalog:
            cure = "needs the name that Spark knows the catalog by: catalog={'name': 'lake', …}"
            raise InvalidOptionError("catalog", cure)
        return Iceberg(f"{self.catalog['name']}.{self.table}")


class Engine(Protocol):
    """How Spark writes a table of some format."""

    def create(self, spark: SparkSession, schema: StructType) -> None:
        """Create the table, unless it is there."""

    def options(self, spark: SparkSession, note: Note) -> dict[str, str]:
        """Make the options of a write that commits a note, and a batch of it once."""

    def append(self, frame: DataFrame, options: Mapping[str, str]) -> None:
        """Commit rows, or none, with the options."""

    def newest_version(self, spark: SparkSession) -> int:
        """Ask the engine that commits for the newest version."""


class Delta:
    """Spark's writer of Delta."""

    def __init__(self, path: str) -> None:
        self._path = path

    def create(self, spark: SparkSession, schema: StructType) -> None:
        """See `Engine`."""
        spark.createDataFrame([], schema).write.format("delta").mode("ignore").save(self._path)

    def options(self, spark: SparkSession, note: Note) -> dict[str, str]:
        """See `Engine`."""
        own = spark.conf.get(_USER_METADATA, None)
        try:
            metadata = note.to_metadata(own)
        except ValueError as error:
            raise InvalidOptionError(_USER_METADATA, str(error)) from None
        return {
            "userMetadata": metadata,
            "txnAppId": str(note.query),
            "txnVersion": str(note.batch),
        }

    def append(self, frame: DataFrame, options: Mapping[str, str]) -> None:
        """See `Engine`."""
        frame.write.format("delta").mode("append").options(**options).save(self._path)

    def newest_version(self, spark: SparkSession) -> int:
        """See `Engine`."""
        # As a string: delta.`path` takes no relative one.
        path = self._path.replace("\\", "\\\\").replace("'", "\\'")
        newest = spark.sql(f"DESCRIBE HISTORY '{path}' LIMIT 1").first()
        assert newest is not None  # noqa: S101 (a table has a first commit)
        return int(newest["version"])


class Iceberg:
    """Spark's writer of Iceberg."""

    def __init__(self, name: str) -> None:
        self._name = name

    def create(self, spark: SparkSession, schema: StructType) -> None:
        """See `Engine`."""
        catalog = self._name.partition(".")[0]
        if spark.conf.get(f"spark.sql.catalog.{catalog}", None) is None:
            cure = f"set spark.sql.catalog.{catalog}, or correct catalog['name']"
            raise InvalidOptionError("catalog", f"Spark knows none named {catalog!r}; {cure}")
        for name in _WAP:
            if spark.conf.get(name, None) is not None:
                cure = "is set: commits would not go to branch main; unset it"
                raise InvalidOptionError(name, cure)
        if not spark.catalog.tableExists(self._name):
            spark.createDataFrame([], schema).writeTo(self._name).using("iceberg").create()

    def options(self, spark: SparkSession, note: Note) -> dict[str, str]:  # noqa: ARG002 (as Delta)
        """See `Engine`."""
        return {f"snapshot-property.{key}": one for key, one in note.to_summary().items()}

    def append(self, frame: DataFrame, options: Mapping[str, str]) -> None:
        """See `Engine`."""
        frame.writeTo(self._name).options(**options).append()

    def newest_version(self, spark: SparkSession) -> int:
        """See `Engine`."""
        entries = spark.table(f"{self._name}.metadata_log_entries")
        newest = entries.agg(F.max("latest_sequence_number")).first()
        assert newest is not None  # noqa: S101 (an aggregate has a row)
        return int(newest[0] or 0)


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


class TableSink:
    """Commits the batches of one query, for ``foreachBatch``.

    A batch without rows whose time is all that is new waits for ``note_every``, and is then
    committed by a timer, unless another batch comes before.
    """

    def __init__(self, options: TableOptions) -> None:
        self._options = options
        self._engine = options.engine()
        self._job: _Job | None = None

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Commit a batch; once, also where Spark repeats it."""
        job = self._opened(number)
        with job.turn():
            plan = job.plan(number)
            if plan.is_known:
                # A known transaction would not run it, and its state would not be stored.
                frame.write.format("noop").mode("overwrite").save()
            else:
                self._append(job, frame, plan)
            job.note_to_service(frame.sparkSession, number)

    def plan(self, number: int) -> Plan:
        """Decide about a batch for a writer of the user's own."""
        return self._opened(number).plan(number)

    def close(self) -> None:
        """Neither commit nor beat any more."""
        if self._job is not None:
            self._job.close()

    def close_after(self, query: StreamingQuery) -> None:
        """Close when a query has ended, though the driver lives on."""

        def wait() -> None:
            with suppress(Exception):  # the query's own, or the session is gone
                query.awaitTermination()
            self.close()

        threading.Thread(target=wait, name="tidegauge-table", daemon=True).start()

    def _append(self, job: "_Job", frame: DataFrame, plan: Plan) -> None:
        frame.persist()
        try:
            rows, late = self._counted(frame, plan.former)
            note = plan.note.model_copy(update={"late": late})
            if rows:
                job.commit(frame, note)
            elif job.says_more(note, plan.former):
                job.commit_soon(frame.sparkSession, frame.schema, note)
        finally:
            frame.unpersist()

    def _counted(self, frame: DataFrame, former: int | None) -> tuple[int, int]:
        """Run the frame, and count its rows and those below what the table was complete until."""
        late = F.lit(None).cast("boolean")
        if former is not None and self._options.event_time is not None:
            late = F.unix_millis(F.expr(self._options.event_time).cast("timestamp")) < former
        counted = frame.agg(F.count(F.lit(1)), F.count_if(late)).first()
        assert counted is not None  # noqa: S101 (an aggregate has a row)
        return counted[0], counted[1]

    def _opened(self, number: int) -> "_Job":
        if self._job is None:
            self._job = _Job(self._options, self._engine, number)
        return self._job


class _Job:
    """A query as the one that declares a table's time, in the driver's process.

    Parameters
    ----------
    options, engine
        Of the query.
    number
        Of the first batch of this run.
    """

    def __init__(self, options: TableOptions, engine: Engine, number: int) -> None:
        self._options, self._engine = options, engine
        self._checkpoint = Checkpoint(options.checkpoint)
        self._query = self._checkpoint.query_id()
        self._log = options.log()
        self._checkpoint_is_of(self._log.table_id)
        self._committed = self._log.committed(self._query)
        if self._committed is None and number > 0:
            self._check_whole()
        self._declares = options.stream or options.job or self._query
        self._may_take_over = options.take_over and not has_taken_over(
            self._query, self._log.newest_first()
        )
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._failure: Exception | None = None
        self._committed_at = float("-inf")
        self._service = (
            None if options.url is None else _Service(options, options.job or self._query)
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

    def plan(self, number: int) -> Plan:
        """Decide what becomes of a batch, or raise why none may be committed."""
        self._refresh()
        former = self._standing()
        is_known = self._committed is not None and number <= self._committed
        if not is_known:
            self._check_turn()
        return Plan(is_known, self._note(number, former), former)

    def commit(self, frame: DataFrame, note: Note) -> None:
        """Commit rows, or none, and see that nobody else declared meanwhile."""
        before = next(self._log.newest_first(), None)
        spark = frame.sparkSession
        self._engine.append(frame, self._engine.options(spark, note))
        self._committed, self._committed_at = note.batch, monotonic()
        self._may_take_over = False
        self._refresh()
        for commit in self._log.newest_first():
            if before is not None and commit.version <= before.version:
                break
            if commit.note is not None and commit.note.job != self._declares:
                raise TwoJobsError(self._options.table, commit.note.job, self._declares)

    def says_more(self, note: Note, former: int | None) -> bool:
        """Whether a commit without rows is worth it, for the time that it tells."""
        return self._service is None and note.time is not None and note.time != former

    def commit_soon(self, spark: SparkSession, schema: StructType, note: Note) -> None:
        """Commit a note without rows, at once if the last commit is long enough ago."""
        wait_s = self._committed_at + self._options.note_every_ms / 1_000 - monotonic()
        if wait_s <= 0 or note.final:
            self.commit(spark.createDataFrame([], schema), note)
            return
        self._timer = threading.Timer(wait_s, self._commit_now, (spark, schema, note))
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

    def _commit_now(self, spark: SparkSession, schema: StructType, note: Note) -> None:
        """Commit what was withheld, unless a batch has come, or the query has stopped."""
        with self._lock:
            if self._timer is not threading.current_thread():
                return
            self._timer = None
            try:
                self._refresh()
                self._standing()
                self._check_turn()
                self.commit(spark.createDataFrame([], schema), note)
            except Exception as error:  # noqa: BLE001 (raised by the next batch)
                self._failure = error

    def _refresh(self) -> None:
        """Read new commits, or raise `ReplacedTableError` if they are another table's."""
        self._log.refresh()
        if self._log.table_id != self._table_id:
            raise ReplacedTableError(self._options.table)

    def _standing(self) -> int | None:
        """Find until when the table is complete, ms."""
        if self._service is None and not self._may_take_over:
            check_jobs(self._options.table, self._log.newest_first())
        newest = standing(self._log.newest_first())
        return None if newest is None else newest.time

    def _note(self, number: int, former: int | None) -> Note:
        delay_ms = self._options.output_delay_ms
        promise = self._checkpoint.batch(number).promise(delay_ms, strictly=True)
        if self._service is not None:
            version = next((one.version for one in self._log.newest_first()), -1)
            promised = self._service.passed({_TABLE: version + 1})
        else:
            promised = END_OF_TIME if promise.is_end else promise.time
        until = max((one for one in (promised, former) if one is not None), default=None)
        return Note(
            until=None if until == END_OF_TIME else until,
            final=until == END_OF_TIME,
            job=self._declares,
            query=self._query,
            batch=number,
            took_over=self._may_take_over and self._why_not() is not None,
        )

    def _check_turn(self) -> None:
        """Raise `TableTakenError` if somebody else declares, or the notes have ended."""
        problem = None if self._may_take_over or self._service is not None else self._why_not()
        if problem is not None and self._options.take_over:
            cure = "this query took over once already: start it with a new checkpoint"
            raise TableTakenError(self._options.table, problem, cure)
        if problem is not None:
            raise TableTakenError(self._options.table, problem)

    def _why_not(self) -> str | None:
        """Say why nobody may declare the table's time but who takes over; None if one may."""
        newest = declaring(self._log.newest_first())
        if newest is None:
            had_notes = self._committed is not None
            ended = has_ended(self._log.newest_first(), had_notes=had_notes)
            problem = "its notes were ended by a restore, a rollback or an overwrite"
            return problem if ended else None
        if newest.job != self._declares:
            time = newest.time
            at = "no time" if time is None else describe_event_time(time)
            return f"job {newest.job!r} declares its time, and has come to {at}"
        # A query that is started again after its own end has batches without rows.
        if newest.final and newest.query != self._query:
            return "its last note is final: no rows were to follow"
        return None

    def _check_whole(self) -> None:
        """Raise if snapshots have expired that might have had batches of this query."""
        if self._options.format == "delta" or is_whole(self._log.newest_first()):
            return
        problem = (
            "its oldest snapshots have expired, so that a batch of this query may be in it"
        )
        cure = "expire fewer snapshots, and start with a new checkpoint and the same job="
        raise TableTakenError(self._options.table, problem, cure)

    def _checkpoint_is_of(self, table_id: str) -> None:
        """Remember in the checkpoint which table it is of, or raise if it was another one."""
        self._table_id = self._checkpoint.own_word(_OWN_FILE, table_id)
        if self._table_id != table_id:
            raise ReplacedTableError(self._options.table)


class _Service:
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
        # On a sealed stream the last batch is repeated, or one without rows comes.
        with suppress(StreamSealedError):
            self._reporter.open()
        self._noted = FIRST_TIME
        self._has_left = False

    def passed(self, position: Mapping[int, int]) -> int | None:
        """Find the time of the newest mark that a position covers, ms."""
        found = self._client.marks_at_position(dict(position)).passed
        return None if found is None else found.lower

    def close(self) -> None:
        """Stop to beat; the query stays a writer of the stream, for its next run."""
        self._reporter.close()
        self._client.close()

    def note(self, promise: Promise, next_version: int) -> None:
        """Note what is promised behind all versions before one; at the end leave, or seal."""
        position = {_TABLE: next_version}
        if promise.is_end and self._seal:
            self._client.seal(position)
        elif promise.is_end and not self._has_left:
            # To leave promises nothing, and marks of others have to cover the last rows.
            self._note_again(position)
            self._reporter.leave()
            self._has_left = True
        elif promise.time is not None:
            self._reporter.note_time(promise.time, position)
            self._noted = promise.time

    def _note_again(self, position: Mapping[int, int]) -> None:
        """Note the last time of this run behind a further position, or what a beat has told."""
        try:
            self._reporter.note_time(self._noted, position)
        except InvalidTimeError as refused:
            if refused.stored_time is None:
                raise
            self._reporter.note_time(refused.stored_time, position)
