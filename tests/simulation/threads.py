"""Threads as queues: what is given to one runs whole at one moment, after a while.

So a thread never runs beside the event loop; that its work may end before or after anything else
is what remains of it. `SimulatedThread` is the writer's thread of a database, and takes one after
another; executors take any number at once.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any

from controller.database.writer_thread import WriterThread
from tests.simulation.choices import Choices
from tests.simulation.kernel import KilledError, SimulatedLoop

Delay = Callable[[], float]


class NoExecutor(Executor):
    """Stands for a pool; the loop runs what it is given."""


class ThreadPools:
    """What becomes of work for executors, whoever they are."""

    def __init__(self, loop: SimulatedLoop, choices: Choices) -> None:
        self._loop = loop
        self._choices = choices

    def run(
        self, executor: object, work: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future = self._loop.create_future()
        delay_s = self._choices.of("threads").expovariate(5_000)
        self._loop.call_later(delay_s, self._settle, future, partial(work, *args))
        return future

    @staticmethod
    def _settle(future: asyncio.Future[Any], work: Callable[[], Any]) -> None:
        if not future.cancelled():
            settle(future, work)


class SimulatedThread(WriterThread):
    """A writer's thread; ``delay`` says how long the next work waits for the disk."""

    def __init__(self, loop: SimulatedLoop, delay: Delay) -> None:
        self._loop = loop
        self._delay = delay
        self._queue: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._waiting = 0

    def close(self) -> None:
        while self._queue:
            work, future = self._queue.popleft()
            settle(future, work)

    def _put(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        self._waiting += 1
        self._queue.append((work, future))
        if self._waiting == 1:
            self._begin()
        return future

    def _begin(self) -> None:
        self._loop.call_later(self._delay(), self._finish)

    def _finish(self) -> None:
        if self._queue:
            work, future = self._queue.popleft()
            settle(future, work)
        self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._waiting -= 1
        if self._waiting:
            self._begin()


def settle(future: asyncio.Future[Any], work: Callable[[], Any]) -> None:
    """Run something, and give a future what comes of it."""
    try:
        result = work()
    except KilledError:
        raise
    except Exception as error:  # noqa: BLE001 (its caller gets it)
        if not future.done():
            future.set_exception(error)
    else:
        if not future.done():
            future.set_result(result)
