"""Threads as queues: what is given to one runs whole at one moment, and is heard of at a later one.

So a thread never runs beside the event loop; that its work may begin and end before or after
anything else is what remains of it. `SimulatedThread` is the writer's thread of a database, and
takes one transaction after another; executors take any number at once.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any, NamedTuple, Protocol

from controller.database.writer_thread import WriterThread
from tests.simulation.disk import Disk, LockedError, Plan
from tests.simulation.kernel import SimulatedLoop, current_node

_NOTICED_S = 0.0002
_LOOK_AGAIN_S = 0.01
"""Whoever waits for a lock."""


class NoExecutor(Executor):
    """Stands for a pool; the loop runs what it is given."""


class ThreadPools:
    """What becomes of work for executors, whoever they are."""

    def __init__(self, loop: SimulatedLoop, disk: Disk) -> None:
        self._loop = loop
        self._disk = disk

    def run(
        self, executor: object, work: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future = self._loop.create_future()
        before_s, behind_s = self._disk.plan_thread()
        self._loop.call_later(before_s, self._run, future, partial(work, *args), behind_s)
        return future

    def _run(
        self, future: asyncio.Future[Any], work: Callable[[], Any], behind_s: float
    ) -> None:
        if not future.cancelled():
            self._loop.call_later(behind_s, _outcome(work).settle, future)


class Server(Protocol):
    """The database as one connection has it."""

    def plan(self) -> Plan:
        """Plan what becomes of the next transaction, which is sent now."""

    def begin(self) -> None:
        """Begin it."""

    def end(self) -> None:
        """Let go of its locks: it was carried out, or never will be."""


class SimulatedThread(WriterThread):
    """A writer's thread.

    A transaction is sent, begins, is carried out, and is heard of. What was sent as a whole begins
    and is carried out whatever becomes of its process meanwhile.
    """

    def __init__(self, loop: SimulatedLoop, server: Server) -> None:
        self._loop = loop
        self._server = server
        self._node = current_node()
        self._queue: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._waiting = 0
        self._plan = Plan()
        self._step: asyncio.TimerHandle

    def cut(self) -> None:
        """Let what has begun fail now: its connection was ended."""
        self._step.cancel()
        self._plan = self._plan._replace(behind_s=_NOTICED_S)
        self._there(0.0, self._carry_out)

    def close(self) -> None:
        self._server.end()
        while self._queue:
            work, future = self._queue.popleft()
            _outcome(work).settle(future)

    def _put(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        self._waiting += 1
        self._queue.append((work, future))
        if self._waiting == 1:
            self._send()
        return future

    def _send(self) -> None:
        self._plan = self._server.plan()
        self._there(self._plan.before_s, self._begin)

    def _begin(self) -> None:
        if self._queue:
            self._server.begin()
        self._there(self._plan.inside_s, self._carry_out)

    def _carry_out(self) -> None:
        outcome: _Outcome | None = None
        future: asyncio.Future[Any] | None = None
        if self._queue:  # else all was carried out when this was closed
            work, future = self._queue[0]
            try:
                outcome = _outcome(work)
            except LockedError:
                self._there(_LOOK_AGAIN_S, self._carry_out)
                return
            self._queue.popleft()
            self._server.end()
        context = self._node.context
        self._loop.call_later(self._plan.behind_s, self._hear, outcome, future, context=context)

    def _hear(self, outcome: "_Outcome | None", future: asyncio.Future[Any] | None) -> None:
        if outcome is not None and future is not None:
            outcome.settle(future)
        self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._waiting -= 1
        if self._waiting:
            self._send()

    def _there(self, delay_s: float, work: Callable[[], None]) -> None:
        """Let something happen at the database."""
        node, world = self._node, self._loop.world
        context = world.context if self._plan.is_sent_whole else node.context
        run = node.context.copy().run
        self._step = self._loop.call_later(delay_s, run, work, context=context)


class _Outcome(NamedTuple):
    """What came of work."""

    result: Any = None
    error: Exception | None = None

    def settle(self, future: asyncio.Future[Any]) -> None:
        if future.done():
            return
        if self.error is not None:
            future.set_exception(self.error)
        else:
            future.set_result(self.result)


def _outcome(work: Callable[[], Any]) -> _Outcome:
    try:
        return _Outcome(work())
    except LockedError:
        raise
    except Exception as error:  # noqa: BLE001 (its caller gets it)
        return _Outcome(error=error)
