"""One thread that work goes through in order, answered on the event loop."""

import asyncio
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, TypeVar

_T = TypeVar("_T")


class _Task(NamedTuple):
    work: Callable[[], Any]
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop


class WriterThread:
    """Runs work one after another; an executor with one thread costs five times as much a turn."""

    def __init__(self, name: str) -> None:
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._waiting = 0
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_free(self) -> bool:
        """Whether nothing runs or waits."""
        return self._waiting == 0

    async def run(self, work: Callable[[], _T]) -> _T:
        """Run work in the thread; raises what it raises."""
        return await self._put(work)  # no name here: the traceback of its error would hold it

    def _put(self, work: Callable[[], _T]) -> "asyncio.Future[_T]":
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_T] = loop.create_future()
        self._waiting += 1
        self._tasks.put(_Task(work, future, loop))
        return future

    def close(self) -> None:
        """Finish what was given, and end the thread."""
        self._tasks.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                answer = partial(task.future.set_result, task.work())
            except Exception as error:  # noqa: BLE001 (its caller gets it)
                answer = partial(task.future.set_exception, error)
            task.loop.call_soon_threadsafe(self._answer, task.future, answer)
            del task, answer  # the next may be long in coming

    def _answer(self, future: asyncio.Future[Any], answer: Callable[[], None]) -> None:
        self._waiting -= 1
        if not future.done():
            answer()
