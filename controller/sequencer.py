"""The sequencer: one order for all changes, and group commit.

What arrives while a transaction is being written shares the next one. Within a batch every
change is first decided in memory, in order of arrival; then the passes that are due run; then
everything is written in one transaction; then, and not before, the callers are answered and
those who wait are woken. Memory is ahead of the disk only between the first and the last of
these steps, and nobody can look in between.

Races settled here: a registration and a pass are serialised, because both run in this loop. A
transaction that fails leaves memory ahead of the disk, so all that it touched is read back
before the next batch; its callers are told that nothing was stored. A transaction that does not
come to an end is given up by the database, and nobody's outcome is known; those who wait behind
it are refused before, and what they asked for is not done later.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Any, Protocol, TypeVar, overload

from sqlalchemy import Connection

from controller.database import Database
from controller.outage import Outage
from tidegauge.errors import UnavailableError

_T = TypeVar("_T")
_PATIENCE_S = 0.001
_MANY_TOUCHED = 256
"""A batch takes no more changes then: what it touched would not stay in the processor's caches."""
_READ_BACK_S = 1.0
_REFUSE_EVERY_S = 0.25
_STUCK = "the database does not come to an end with what was asked before"
_AWAY = "what a failed transaction touched cannot be read back"

Write = Callable[[Connection], None]
WriteAll = Callable[[Connection, list[Any]], None]


class Touched(Protocol):
    """Something in memory that mirrors rows, and takes part in batches."""

    def before_commit(self, batch: "Batch") -> None:
        """Add what has to be written, after all changes of the batch are decided."""

    def after_commit(self) -> None:
        """Publish what is durable now, and wake those who wait."""

    async def reload(self) -> None:
        """Become what the disk says, after a failed commit."""


@dataclass(slots=True)
class Batch:
    """What one transaction will write."""

    writes: list[Write] = field(default_factory=list)
    together: dict[WriteAll, list[Any]] = field(default_factory=dict)
    touched: dict[Touched, None] = field(default_factory=dict)
    rows: int = 0

    def write(self, work: Write, *, rows: int = 1) -> None:
        """Write something, in order, of roughly so many short rows."""
        self.writes.append(work)
        self.rows += rows

    def write_together(self, work: WriteAll, item: object, *, rows: int = 1) -> None:
        """Write something along with all else that is given to the same work, at the end."""
        self.together.setdefault(work, []).append(item)
        self.rows += rows

    def touch(self, one: Touched) -> None:
        """Let a thing take part: it adds its changes, and publishes or reloads afterwards."""
        self.touched[one] = None


class Submission(Protocol):
    """A change on its way through a batch; `finish` or `fail` is called once."""

    def decide(self, batch: Batch) -> None:
        """Change memory and add writes to the batch; what raises must have changed nothing."""

    def finish(self) -> None:
        """Answer with what is durable, before anything else changes."""

    def fail(self, error: Exception) -> None:
        """Answer that nothing was stored."""


class _Awaited:
    """A submission that somebody awaits."""

    __slots__ = ("_answer", "_decide", "_result", "future")

    def __init__(
        self,
        decide: Callable[[Batch], Any],
        answer: Callable[[], Any] | None,
        future: asyncio.Future[Any],
    ) -> None:
        self._decide = decide
        self._answer = answer
        self._result: Any = None
        self.future = future

    def decide(self, batch: Batch) -> None:
        self._result = self._decide(batch)

    def finish(self) -> None:
        if self.future.done():
            return
        try:
            result = self._result if self._answer is None else self._answer()
        except Exception as error:  # noqa: BLE001 (its caller gets it)
            self.fail(error)
        else:
            self.future.set_result(result)

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class Sequencer:
    """Runs batches one after another until it is closed.

    Parameters
    ----------
    database
        Where they are written.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._queue: list[Submission] = []
        self._arrived = asyncio.Event()
        self._expected = 1
        self._left = False
        """Whether the last batch left submissions to the next."""
        self._patience: asyncio.TimerHandle | None = None
        self._stale: dict[Touched, None] = {}
        self._outage = Outage()
        self._closing = False
        self._loop: asyncio.AbstractEventLoop
        self._task: asyncio.Task[None] | None = None
        self._looks: list[Submission] = []
        self._busy = False
        self._busy_since = 0.0
        self._behind_since: float | None = None
        """Since when no batch has left memory equal to the disk."""
        self._refusing: asyncio.TimerHandle | None = None
        self.on_batch: Callable[[int, float], None] = lambda _size, _seconds: None
        """Told of every batch: how many changes, and the seconds its transaction took."""
        self.on_failure: Callable[[], None] = lambda: None
        """Told of every transaction that failed."""

    def start(self) -> asyncio.Task[None]:
        """Begin to work, on the running event loop; the task ends when this is closed."""
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run(), name="the sequencer")
        return self._task

    async def close(self) -> None:
        """Finish what was submitted; refuse what comes from now on."""
        self._closing = True
        self._arrived.set()
        if self._task is not None:
            await self._task

    @property
    def queue_length(self) -> int:
        """How many submissions wait for the next batch."""
        return len(self._queue)

    @property
    def busy_s(self) -> float:
        """How long the present batch has been under way; 0 between batches."""
        return self._loop.time() - self._busy_since if self._busy else 0.0

    @property
    def look_count(self) -> int:
        """How many looks at memory wait for a batch to end."""
        return len(self._looks)

    @overload
    def submit(self, decide: Callable[[Batch], _T]) -> "asyncio.Future[_T]": ...

    @overload
    def submit(
        self, decide: Callable[[Batch], object], answer: Callable[[], _T]
    ) -> "asyncio.Future[_T]": ...

    def submit(
        self, decide: Callable[[Batch], Any], answer: Callable[[], Any] | None = None
    ) -> "asyncio.Future[Any]":
        """Have a change made durable.

        Parameters
        ----------
        decide
            Changes memory and adds writes to the batch. If it raises, it must have changed
            nothing; only its own caller fails.
        answer
            Makes the result from what is durable, before anything else changes; without it the
            result is what ``decide`` returned.

        Returns
        -------
        Future
            Done when the change is on disk. Fails with `UnavailableError` if the transaction
            failed; nothing is stored then, and memory equals the disk again.
        """
        future: asyncio.Future[Any] = self._loop.create_future()
        self.enter(_Awaited(decide, answer, future))
        return future

    def enter(self, submission: Submission) -> None:
        """Have a change made durable that nobody awaits, but that answers itself."""
        if self._closing:
            submission.fail(UnavailableError("the service is shutting down"))
        else:
            self._queue.append(submission)
            self._begin_when_gathered()

    async def read(self, look: Callable[[], _T]) -> _T:
        """Look at memory when it equals the disk: between two batches.

        Raises
        ------
        UnavailableError
            If a transaction failed and what it touched cannot be read back.
        """
        if not self._busy and not self._stale:
            return look()
        future: asyncio.Future[_T] = self._loop.create_future()
        self._looks.append(_Awaited(_nothing, look, future))
        if not self._busy:
            self.submit(_nothing).add_done_callback(asyncio.Future.exception)
        return await future

    async def _run(self) -> None:
        while self._queue or not self._closing:
            await self._arrived.wait()
            count = len(self._queue)
            if count:
                self._busy, self._busy_since = True, self._loop.time()
                self._expect_an_end()
                await self._take()
                self._note_end()
                self._busy = False
            self._look()
            self._expect(1 if self._left else max(1, count + len(self._queue)))

    def _expect_an_end(self) -> None:
        """Refuse who waits once it takes too long until memory equals the disk again."""
        if self._behind_since is None:
            self._behind_since = self._busy_since
        if self._database.patience_s < inf:
            waited_s = self._busy_since - self._behind_since
            delay_s = max(_REFUSE_EVERY_S, self._database.patience_s - waited_s)
            self._refusing = self._loop.call_later(delay_s, self._refuse_who_wait)

    def _note_end(self) -> None:
        if not self._stale:
            self._behind_since = None
        if self._refusing is not None:
            self._refusing.cancel()
            self._refusing = None

    def _refuse_who_wait(self) -> None:
        waiting = [*self._queue, *self._looks]
        self._queue, self._looks = [], []
        self._refusing = self._loop.call_later(_REFUSE_EVERY_S, self._refuse_who_wait)
        _fail(waiting, UnavailableError(_STUCK))

    def _look(self) -> None:
        looks, self._looks = self._looks, []
        if self._stale:
            _fail(looks, UnavailableError(_AWAY))
            return
        for one in looks:
            one.finish()

    def _expect(self, count: int) -> None:
        self._expected = count
        self._arrived.clear()
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        self._begin_when_gathered()

    def _begin_when_gathered(self) -> None:
        """Begin a batch with all who are expected, or with who came until the time is over.

        Who was answered by the last batch will, under load, ask again at once. A batch that
        began with the first of them would make the others wait for a commit of their own.
        """
        if len(self._queue) >= self._expected or self._closing:
            self._arrived.set()
        elif self._queue and self._patience is None:
            self._patience = self._loop.call_later(_PATIENCE_S, self._arrived.set)

    async def _take(self) -> None:
        readable = not self._stale or await self._reload()
        submissions, self._queue = self._queue, []
        if not readable:
            _fail(submissions, UnavailableError(_AWAY))
            return
        if not submissions:
            return
        batch, seconds = Batch(), 0.0
        decided = self._decide(submissions, batch)
        try:
            for one in list(batch.touched):
                one.before_commit(batch)
            if batch.writes or batch.together:
                began = self._loop.time()
                await self._database.write(
                    lambda connection: _write(batch, connection), rows=batch.rows
                )
                seconds = self._loop.time() - began
                self._outage.end()
        except Exception as error:  # noqa: BLE001 (every caller gets it)
            await self._roll_back(batch, decided, error)
            return
        self.on_batch(len(decided), seconds)
        for one in batch.touched:
            one.after_commit()
        for submission in decided:
            submission.finish()

    def _decide(self, submissions: list[Submission], batch: Batch) -> list[Submission]:
        """Decide as many as a batch takes; tell which do not fail."""
        decided = []
        self._left = False
        for place, one in enumerate(submissions):
            if len(batch.touched) >= _MANY_TOUCHED:
                self._queue[:0] = submissions[place:]
                self._left = True
                break
            if _decide(one, batch):
                decided.append(one)
        return decided

    async def _roll_back(
        self, batch: Batch, decided: list[Submission], error: Exception
    ) -> None:
        self._outage.tell(error, changes=len(decided))
        self.on_failure()
        self._stale |= batch.touched
        reading_back = self._loop.create_task(self._reload())
        await asyncio.wait({reading_back}, timeout=_READ_BACK_S)
        _fail(decided, error)
        await reading_back

    async def _reload(self) -> bool:
        for one in reversed(list(self._stale)):  # what they were stored through comes last
            try:
                await one.reload()
            except UnavailableError as error:
                self._outage.tell_stale(error)
                return False
            del self._stale[one]
        return True


def _nothing(_batch: Batch) -> None:
    pass


def _decide(submission: Submission, batch: Batch) -> bool:
    try:
        submission.decide(batch)
    except Exception as error:  # noqa: BLE001 (its caller gets it)
        submission.fail(error)
        return False
    return True


def _fail(submissions: list[Submission], error: Exception) -> None:
    for one in submissions:
        one.fail(error)


def _write(batch: Batch, connection: Connection) -> None:
    for work in batch.writes:
        work(connection)
    for work_on_all, items in batch.together.items():
        work_on_all(connection, items)
