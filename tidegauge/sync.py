"""A synchronous face for asynchronous clients: one thread with an event loop."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tidegauge.errors import TidegaugeError

_T = TypeVar("_T")


class ForkedClientError(TidegaugeError):
    """A client is used in a forked child: its connections and threads stayed in the parent."""

    def __init__(self) -> None:
        super().__init__(
            "this client was made before the process forked; make one in the child"
        )


class LoopThread:
    """Runs coroutines for callers in other threads.

    The thread starts with the first of them and ends with `close`.

    Parameters
    ----------
    name
        Of the thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def check_process(self) -> None:
        """Refuse to work in a forked child; raises `ForkedClientError`."""
        if not self.is_own_process:
            raise ForkedClientError

    @property
    def is_own_process(self) -> bool:
        """Whether this is the process that the thread was made in, not a forked child."""
        return os.getpid() == self._pid

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop, running."""
        self.check_process()
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name=self._name, daemon=True
                )
                self._thread.start()
            return self._loop

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine and wait for its result."""
        try:
            loop = self.loop
        except ForkedClientError:
            work.close()
            raise
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Run something on the loop without waiting, if the loop runs."""
        self.check_process()
        with self._lock:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(callback)

    def close(self) -> None:
        """Stop the thread; whoever still waits for a coroutine sees it cancelled."""
        self.check_process()
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            asyncio.run_coroutine_threadsafe(_cancel_others(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
