"""A table in memory and queries that declare its time, step by step, and a judge of what they say."""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

from spark_source.checkpoints.checkpoint import Promise
from spark_source.errors import TableTakenError
from spark_source.sink.job import Plan, TableJob, TableOptions
from tidegauge.tables.declaring import Memory
from tidegauge.tables.errors import TwoJobsError
from tidegauge.tables.history import Commit, check_jobs, commit_in_effect
from tidegauge.tables.notes import Note

REFUSED = TableTakenError, TwoJobsError


class DiesError(Exception):
    """Stands for the end of a driver's process behind its commit."""


class Row(NamedTuple):
    """A row of a batch: who brought it, and its time."""

    query: str
    number: int
    time: int


@dataclass
class Table:
    """The commits of a table, as either format keeps them.

    Attributes
    ----------
    commits
        Those that are kept, oldest first.
    rows
        That were ever committed.
    reached
        The greatest time that was said since notes last ended, ms.
    broken
        How many commits broke what was said before.
    told
        Whether readers of the newest version are told that two declare by turns.
    dies
        Whether the next driver that commits dies behind it.
    declarer
        Whose the newest note is, or was.
    """

    commits: list[Commit] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    reached: int | None = None
    broken: int = 0
    told: bool = False
    number: int = 0
    dies: bool = False
    declarer: str | None = None

    def append(self, rows: Sequence[Row] = (), note: Note | None = None, **how: Any) -> None:
        """Commit, and judge what the note says of these rows and of what was said before."""
        self.commits.append(Commit(self.number, note, is_first=self.number == 0, **how))
        self.number += 1
        self.rows += rows
        self.told = self._readers_are_told()
        if note is not None:
            self.declarer = note.query
            former = -1 if self.reached is None else self.reached
            time = former if note.time is None else note.time
            if sum(row.time < former for row in rows) != note.late or time < former:
                self.broken += 1
                assert self.told, "the promise is broken, and no reader is told"
            self.reached = max(former, time) if max(former, time) >= 0 else None
        if how.get("ends_notes"):
            self.reached = None

    def truncate(self) -> None:
        """Compact, and keep no older commit."""
        self.append(has_rows=False)
        self.commits = self.commits[-1:]

    def restore(self) -> None:
        """Take back what was committed by a commit that says so, as Delta does."""
        self.append(ends_notes=True)

    def roll_back(self, version: int) -> None:
        """Go back to a version by a change of the metadata, of which nothing is seen later."""
        self.commits = [commit for commit in self.commits if commit.version <= version]
        newest = commit_in_effect(reversed(self.commits))
        self.reached = None if newest is None else newest.time

    def _readers_are_told(self) -> bool:
        try:
            check_jobs("t", reversed(self.commits))
        except TwoJobsError:
            return True
        return False


class Log:
    """What a query has read of the table, see `TableLog`."""

    name, table_id = "t", "id"

    def __init__(self, table: Table) -> None:
        self._table = table
        self.refresh()

    def refresh(self) -> None:
        self._commits = list(self._table.commits)

    def newest_first(self) -> Iterator[Commit]:
        return reversed(self._commits)

    def committed(self, query: str) -> int | None:
        notes = [commit.note for commit in self.newest_first()]
        batches = [note.batch for note in notes if note is not None and note.query == query]
        return max((batch for batch in batches if batch is not None), default=None)


class Engine:
    """Commits into the table, see `spark_source.sink.engines.Engine`."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def options(self, spark: Any, note: Note) -> dict[str, Any]:  # noqa: ARG002 (as the others)
        return {"note": note}

    def check(self, spark: object) -> None:
        """The session can write it."""

    def create(self, spark: Any, schema: Any) -> None:
        """The table is there."""

    def newest_version(self, spark: Any) -> int:  # noqa: ARG002 (the same)
        return self._table.number - 1

    def append(self, frame: Any, options: Mapping[str, Any]) -> None:
        self._table.append(frame.rows, options["note"])
        if self._table.dies:
            self._table.dies = False
            raise DiesError


class Spark:
    """Makes frames."""

    def createDataFrame(self, rows: Sequence[Row], schema: object) -> Any:  # noqa: ARG002, N802 (Spark's)
        return SimpleNamespace(sparkSession=self, schema=None, rows=list(rows))


@dataclass
class Checkpoint:
    """What outlives a driver.

    Attributes
    ----------
    planned
        The rows and the bound of each batch, as Spark logged them.
    done
        How many batches Spark knows to be done.
    """

    query: str
    words: dict[str, str] = field(default_factory=dict)
    planned: list[tuple[list[Row], int]] = field(default_factory=list)
    done: int = 0

    def query_id(self) -> str:
        return self.query

    def own_word(self, name: str) -> str | None:
        return self.words.get(name)

    def leave_own_word(self, name: str, word: str) -> None:
        self.words[name] = word

    def batch(self, number: int) -> Any:
        time = self.planned[number][1]
        return SimpleNamespace(promise=lambda *_, **__: Promise(time, is_end=False))


class Query:
    """A query of a job; started again it has the same checkpoint."""

    def __init__(
        self, table: Table, name: str, *, job: str = "j", stream: str | None = None
    ) -> None:
        self.table, self.job_name, self.stream = table, job, stream
        self.checkpoint = Checkpoint(name)
        self._job: TableJob | None = None
        self._plan: Plan | None = None
        self._rows_seen = 0

    def start(self, *, take_over: bool = False, number: int | None = None) -> None:
        """Begin a run."""
        options = self._options(take_over=take_over)
        log: Any = Log(self.table)
        checkpoint: Any = self.checkpoint
        number = checkpoint.done if number is None else number
        self._job = TableJob(options, Engine(self.table), log, checkpoint, number=number)

    def _options(self, *, take_over: bool = False) -> TableOptions:
        return TableOptions(
            table="t",
            format="iceberg",
            checkpoint=self.checkpoint.query,
            job=self.job_name,
            stream=self.stream,
            take_over=take_over,
            note_every_ms=0,
        )

    def stop(self) -> None:
        """End the run, whatever it is doing."""
        self._job = self._plan = None

    def plan(self, *times: int, bound: int, take_over: bool = False) -> None:
        """Plan a batch, or the one that was planned and not done."""
        number, checkpoint = self.checkpoint.done, self.checkpoint
        if number == len(checkpoint.planned):
            made = self._rows_seen
            rows = [Row(checkpoint.query, made + place, at) for place, at in enumerate(times)]
            self._rows_seen += len(rows)
            checkpoint.planned.append((rows, bound))
        try:
            if self._job is None:
                self.start(take_over=take_over)
            assert self._job is not None
            self._plan = self._job.plan(Spark().createDataFrame([], None), number)
        except (*REFUSED, DiesError):
            self.stop()
            raise

    def commit(self) -> None:
        """Commit what was planned."""
        assert self._job is not None
        assert self._plan is not None
        plan, rows = self._plan, self.checkpoint.planned[self.checkpoint.done][0]
        former, broken = plan.former, self.table.broken
        late = sum(former is not None and row.time < former for row in rows)
        try:
            if not plan.is_known:
                note = plan.note.model_copy(update={"late": late})
                self._job.commit(Spark().createDataFrame(rows, None), note)
        except (*REFUSED, DiesError):
            self.stop()
            raise
        assert self.table.broken == broken, "the promise is broken, and its query goes on"
        assert set(rows) <= set(self.table.rows), "rows were taken for committed"
        self.checkpoint.done += 1
        self._plan = None

    def batch(self, *times: int, bound: int, take_over: bool = False) -> None:
        """Plan a batch and commit it."""
        self.plan(*times, bound=bound, take_over=take_over)
        self.commit()

    @property
    def memory(self) -> Memory | None:
        """What its checkpoint remembers."""
        text = self.checkpoint.own_word(self._options().word)
        return None if text is None else Memory.from_text(text)

    @property
    def is_planned(self) -> bool:
        """Whether it may commit."""
        return self._plan is not None

    def backup(self) -> Checkpoint:
        """Copy the checkpoint."""
        return deepcopy(self.checkpoint)

    def recover(self, copy: Checkpoint) -> None:
        """Go on from a copy of the checkpoint."""
        self.stop()
        self.checkpoint = deepcopy(copy)
