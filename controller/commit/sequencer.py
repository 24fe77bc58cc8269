"""The sequencer: one order for all changes, and group commit.

What arrives while a transaction is being written shares the next one. Within a batch every
change is first decided in memory, in order of arrival; then the passes that are due run; then
everything is written in one transaction; then, and not before, the callers are answered and
the callers that wait are woken. Memory is ahead of the disk only between the first and the last of
these steps, and nothing can read it in between.

Races settled here: a registration and a pass are serialised, because both run in this loop. A
transaction that fails leaves memory ahead of the disk, so all that it touched is read back before
the next batch; its callers get the error that nothing was stored. A transaction that does not come
to an end is given up by the database, and no outcome is known; callers that wait behind it are
refused before, and what they asked for is not done later. How long that takes is counted over
batches: one that fails, and is followed by others that cannot read back what it touched, is no new
beginning.
"""

import asyncio
import logging
from collections.abc import Callable
from math import inf
from typing import Any, TypeVar, overload

from controller.commit.batch import Batch, Submission, Touched
from controller.database import Database, LeaseLostError
from controller.logs.deduplication import LogOnce
from tidegauge.errors import OutcomeUnknownError, TidegaugeError, UnavailableError

_T = TypeVar("_T")
_log = logging.getLogger(__name__)
_GATHER_S = 0.001
"""As long as it takes a caller on this machine to ask again, and a fraction of a commit."""
_MANY_TOUCHED = 256
"""A batch takes no more changes then: what it touched would not stay in the processor's caches."""
_READ_BACK_S = 1.0
"""Callers of a failed batch hear of it then, even if memory does not equal the disk again yet."""
_REFUSE_AGAIN_S = 0.25
"""Later callers, while a transaction does not end, wait so long at most."""
_STUCK = "the database does not come to an end with what was asked before"
_AWAY = "what a failed transaction touched cannot be read back"
UNCERTAIN = "another controller may have taken over"


class Sequencer:
    """Runs batches one after another until it is closed."""

    def __init__(
        self, database: Database, is_certain: Callable[[], bool] = lambda: True
    ) -> None:
        self._database = database
        self._is_certain = is_certain
        self._queue: list[Submission] = []
        self._arrived = asyncio.Event()
        self._expected = 1
        self._left = False
        """Whether the last batch left submissions to the next."""
        self._gathering: asyncio.TimerHandle | None = None
        self._stale: dict[Touched, None] = {}
        self._outage = LogOnce(_log, logging.ERROR)
        """What the database refuses, or is away for, is one line for each reason until a
        transaction succeeds: the database has logged all about it, and callers repeat."""
        self._closing = False
        self._loop: asyncio.AbstractEventLoop
        self._task: asyncio.Task[None] | None = None
        self._reads: list[Submission] = []
        self._busy = False
        self._busy_since = 0.0
        self._behind_since: float | None = None
        """Since when no batch has left memory equal to the disk."""
        self._timeout: asyncio.TimerHandle | None = None
        self.unstored = 0
        """How many changes the database failed to store, or nobody knows whether it did."""
        self.on_batch: Callable[[int, float], None] = lambda _size, _seconds: None
        """Called after every batch, with the number of changes, and the seconds its transaction took."""
        self.on_failure: Callable[[], None] = lambda: None
        """Called after every transaction that failed."""

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
    def busy_s(self) -> float:
        """How long the present batch has been under way; 0 between batches."""
        return self._loop.time() - self._busy_since if self._busy else 0.0

    @property
    def queues(self) -> dict[str, int]:
        """How many changes wait for the next batch, and reads of memory for one to end."""
        return {"changes": len(self._queue), "reads": len(self._reads)}

    @overload
    def submit(self, decide: Callable[[Batch], _T]) -> "asyncio.Future[_T]": ...

    @overload
    def submit(
        self, decide: Callable[[Batch], object], answer: Callable[[], _T]
    ) -> "asyncio.Future[_T]": ...

    def submit(
        self, decide: Callable[[Batch], Any], answer: Callable[[], Any] | None = None
    ) -> "asyncio.Future[Any]":
        """Make a change durable; see `Submission` for what is called when.

        If ``decide`` raises, only its own caller fails. The future is done when the change is on
        disk. It fails with `UnavailableError` if the transaction failed; nothing is stored then,
        and memory equals the disk again.
        """
        future: asyncio.Future[Any] = self._loop.create_future()
        submission = Submission(decide, answer, future)
        if self._closing:
            submission.fail(UnavailableError("the service is shutting down"))
        else:
            self._queue.append(submission)
            self._begin_when_gathered()
        return future

    def submit_quietly(self, decide: Callable[[Batch], object]) -> "asyncio.Future[Any]":
        """Submit a change that nobody waits for; a defect is logged.

        A transaction that failed is logged once for all that it was made of.
        """
        submitted = self.submit(decide)
        submitted.add_done_callback(_log_defect)
        return submitted

    async def read(self, read: Callable[[], _T]) -> _T:
        """Read memory while it equals the disk: between two batches.

        Fails with `UnavailableError` if what a transaction touched cannot be read back, or another
        controller may have written since.
        """
        if not self._busy and not self._stale:
            result = read()
            if not self._is_certain():
                raise UnavailableError(UNCERTAIN)
            return result
        if self._closing and not self._busy:  # no batch will follow
            raise UnavailableError(_AWAY)
        future: asyncio.Future[_T] = self._loop.create_future()
        self._reads.append(Submission(_nothing, read, future))
        if not self._busy:
            self.submit(_nothing).add_done_callback(asyncio.Future.exception)
        return await future

    async def _run(self) -> None:
        while self._queue or not self._closing:
            await self._arrived.wait()
            count = len(self._queue)
            if count:
                self._busy, self._busy_since = True, self._loop.time()
                self._behind_since = self._behind_since or self._busy_since
                if self._database.timeout_s < inf:
                    left_s = self._database.timeout_s - (self._busy_since - self._behind_since)
                    later_s = max(_REFUSE_AGAIN_S, left_s)
                    self._timeout = self._loop.call_later(later_s, self._refuse_waiting)
                await self._take()
                if not self._stale:
                    self._behind_since = None
                if self._timeout is not None:
                    self._timeout.cancel()
                self._busy = False
            reads, self._reads = self._reads, []
            if self._stale or not self._is_certain():
                _fail(reads, UnavailableError(_AWAY if self._stale else UNCERTAIN))
            else:
                for one in reads:
                    one.finish()
            # Callers that were answered, and those that came meanwhile, are expected to ask again.
            self._expected = 1 if self._left else max(1, count + len(self._queue))
            self._arrived.clear()
            if self._gathering is not None:
                self._gathering.cancel()
                self._gathering = None
            self._begin_when_gathered()

    def _refuse_waiting(self) -> None:
        """Refuse the callers that wait, and now and then later ones, until the batch ends."""
        self._timeout = self._loop.call_later(_REFUSE_AGAIN_S, self._refuse_waiting)
        waiting = [*self._queue, *self._reads]
        self.unstored += len(self._queue)
        self._queue, self._reads = [], []
        _fail(waiting, UnavailableError(_STUCK))

    def _begin_when_gathered(self) -> None:
        """Begin a batch with all callers that are expected, or those that came in time.

        A caller that was answered by the last batch will, under load, ask again at once. A batch
        that began with the first of them would make the others wait for a commit of their own.
        """
        if len(self._queue) >= self._expected or self._closing:
            self._arrived.set()
        elif self._queue and self._gathering is None:
            self._gathering = self._loop.call_later(_GATHER_S, self._arrived.set)

    async def _take(self) -> None:
        readable = not self._stale or await self._reload()
        submissions, self._queue = self._queue, []
        if not readable:
            self.unstored += len(submissions)
            _fail(submissions, UnavailableError(_AWAY))
            return
        if not submissions:
            return
        batch, seconds = Batch(), 0.0
        decided = self._decide(submissions, batch)
        try:
            for touched in list(batch.touched):  # they may touch more, which comes later
                touched.before_commit(batch)
            if batch.writes or batch.together:
                began = self._loop.time()
                await self._database.write(batch.carry_out, rows=batch.rows)
                seconds = self._loop.time() - began
                self._outage.end()
        except Exception as error:  # noqa: BLE001 (every caller gets it)
            await self._roll_back(batch, decided, error)
            return
        self.on_batch(len(decided), seconds)
        # Publish everything before anybody is answered: answers say what is durable of all.
        for touched in batch.touched:
            try:
                touched.after_commit()
            except Exception:  # noqa: BLE001 (it is logged)
                # It is stored, so callers are answered; it is read back before the next batch.
                _log.exception("what was stored cannot be published")
                self._stale[touched] = None
        if not (batch.writes or batch.together or self._is_certain()):
            # Nothing was committed, which would have been the check: it was read from memory.
            _fail(decided, UnavailableError(UNCERTAIN))
            return
        for submission in decided:
            submission.finish()

    def _decide(self, submissions: list[Submission], batch: Batch) -> list[Submission]:
        """Decide as many as a batch takes; return those that do not fail."""
        decided = []
        self._left = False
        for index, submission in enumerate(submissions):
            if len(batch.touched) >= _MANY_TOUCHED:
                self._queue[:0] = submissions[index:]
                self._left = True
                break
            try:
                submission.decide(batch)
            except Exception as error:  # noqa: BLE001 (its caller gets it)
                submission.fail(error)
            else:
                decided.append(submission)
        return decided

    async def _roll_back(
        self, batch: Batch, decided: list[Submission], error: Exception
    ) -> None:
        changes = {"changes": len(decided)}
        if isinstance(error, LeaseLostError):
            _log.info("a transaction came too late: %s", error.reason, extra=changes)
        elif isinstance(error, OutcomeUnknownError | UnavailableError):
            self._outage.log(f"transactions fail: {error.reason}")
        else:
            _log.error("a transaction failed", exc_info=error, extra=changes)
        self.on_failure()
        self.unstored += len(decided)
        self._stale |= batch.touched
        reading_back = self._loop.create_task(self._reload())
        await asyncio.wait({reading_back}, timeout=_READ_BACK_S)
        _fail(decided, error)
        await reading_back

    async def _reload(self) -> bool:
        for touched in reversed(list(self._stale)):  # what they were stored through comes last
            try:
                await touched.reload()
            except UnavailableError as error:
                self._outage.log(f"cannot read back after a failed transaction: {error.reason}")
                return False
            del self._stale[touched]
        return True


def _nothing(_batch: Batch) -> None:
    pass


def _fail(submissions: list[Submission], error: Exception) -> None:
    for submission in submissions:
        submission.fail(error)


def log_failure(work: "asyncio.Future[Any]") -> None:
    """Log what failed though nobody waits for it."""
    if not work.cancelled() and (error := work.exception()) is not None:
        traceback = None if isinstance(error, TidegaugeError) else error
        _log.error("work in the background failed: %s", error, exc_info=traceback)


def _log_defect(submitted: "asyncio.Future[Any]") -> None:
    known = OutcomeUnknownError | UnavailableError
    if not submitted.cancelled() and not isinstance(submitted.exception(), known):
        log_failure(submitted)
