"""Synchronous faces of asynchronous clients: one thread with an event loop for each."""

import asyncio
import os
import re
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from functools import wraps
from inspect import getdoc
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from tidegauge.errors import TidegaugeError

_C = TypeVar("_C")
_C_co = TypeVar("_C_co", covariant=True)
_P = ParamSpec("_P")
_T = TypeVar("_T")
_PARAMETERS = re.compile(r"Parameters\n-+\n.*?(?=\n\n\w+\n-|\Z)", re.DOTALL)
"""The section of a docstring."""


class ForkedClientError(TidegaugeError):
    """A client is used in a forked child: its connections and threads stayed in the parent."""

    def __init__(self) -> None:
        super().__init__(
            "this client was made before the process forked; make one in the child"
        )


class ClientClosedError(TidegaugeError):
    """A client is used after it was closed."""

    def __init__(self, message: str = "this client is closed; make another") -> None:
        super().__init__(message)


class LoopThread:
    """Runs coroutines for callers in other threads.

    The thread starts with the first of them and ends with `end`, for good; a call after that
    gets the error that ``closed`` makes.
    """

    def __init__(
        self, name: str, *, closed: Callable[[], TidegaugeError] = ClientClosedError
    ) -> None:
        self._name = name
        self._pid = os.getpid()
        self._closed_error = closed
        self._closed = False
        self._lock = threading.Lock()
        self._ending = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def check_process(self) -> None:
        """Refuse to work in a forked child; raises `ForkedClientError`."""
        if os.getpid() != self._pid:
            raise ForkedClientError

    @property
    def is_own_process(self) -> bool:
        """Whether this is the process that the thread was made in, not a forked child."""
        return os.getpid() == self._pid

    def check_open(self) -> None:
        """Refuse to work in a forked child, and after the end."""
        self.check_process()
        if self._closed:
            raise self._closed_error()

    def submit(self, work: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Begin to run a coroutine; refused in a forked child, and after the end."""
        try:
            self.check_process()
            with self._lock:
                self.check_open()
                if self._loop is None:
                    self._loop = asyncio.new_event_loop()
                    self._thread = threading.Thread(
                        target=self._loop.run_forever, name=self._name, daemon=True
                    )
                    self._thread.start()
                return asyncio.run_coroutine_threadsafe(work, self._loop)
        except TidegaugeError:
            work.close()
            raise

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine and wait for its result; raises what `submit` does, also if it ends meanwhile."""
        future = self.submit(work)
        try:
            return future.result()
        except TidegaugeError as error:
            # The thirty frames of the other thread say nothing that the message does not.
            raise error.with_traceback(None) from error.__cause__
        except CancelledError:
            self.check_open()  # the end cancels what is under way
            raise
        except KeyboardInterrupt:
            future.cancel()
            raise

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Run something on the loop without waiting, if the loop runs."""
        self.check_process()
        with self._lock:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(callback)

    def end(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a last coroutine and stop; a repeated call only waits for the first one.

        A caller that still waits for another coroutine gets an error.
        """
        self.check_process()
        with self._ending:
            if self._closed:
                return
            try:
                self.run(last())
            finally:
                self._stop()

    def _stop(self) -> None:
        """Refuse calls from now on, and end the thread.

        The race: a call that is let in after the others were cancelled would wait for ever. So that
        is decided under the lock under which coroutines are handed over.
        """
        with self._lock:
            self._closed = True
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


class SyncFace(Generic[_C_co]):
    """The synchronous face of an asynchronous client, which lives in a thread of its own."""

    _core: _C_co
    _thread: LoopThread


def face_of(client: type) -> Callable[[type[_T]], type[_T]]:
    """Show the parameters of an asynchronous client in the help of its synchronous face, too."""
    section = _PARAMETERS.search(getdoc(client) or "")

    def show(face: type[_T]) -> type[_T]:
        if section is not None:
            text, examples, code = (getdoc(face) or "").partition("\n\nExamples\n")
            face.__doc__ = f"{text}\n\n{section[0]}{examples}{code}"
        return face

    return show


def blocking(
    method: Callable[Concatenate[_C, _P], Coroutine[Any, Any, _T]],
) -> Callable[Concatenate[SyncFace[_C], _P], _T]:
    """Make a method of the synchronous face: it waits for that of the asynchronous client."""

    @wraps(method)
    def run(self: SyncFace[_C], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return self._thread.run(method(self._core, *args, **kwargs))

    return run
