"""A connection to PostgreSQL that does not wait for ever for a server that is stuck.

Keepalives and time-outs of TCP notice a server that is lost. One whose processes are frozen, or
wait for a disk or a lock, keeps its sockets open, and its kernel acknowledges whatever it is sent.
"""

from collections.abc import Callable, Generator
from datetime import datetime
from math import inf
from time import monotonic, sleep
from typing import Any, TypeAlias, TypeVar

import psycopg
from sqlalchemy import Connection

from tidegauge.errors import UnavailableError

SILENT = "the database does not answer"
_T = TypeVar("_T")
_Waiting = Generator[Any, Any, _T]
_LOOK_S = 0.01  # a process of the server ends within milliseconds, if it does
_THIS = "SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"
_END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE (pid, backend_start) = (%s, %s)"


class ImpatientConnection(psycopg.Connection[Any]):
    """Is closed, as if it were lost, once the server was silent for too long."""

    find_patience_s: Callable[[], float] = staticmethod(lambda: inf)
    """Tells how long a server that was asked may say nothing."""

    def wait(self, gen: _Waiting[_T], *args: Any, **options: Any) -> _T:  # noqa: ANN401 (psycopg's)
        """Wait for an answer."""
        return super().wait(self._unless_silent(gen), *args, **options)

    def _unless_silent(self, waiting: _Waiting[_T]) -> _Waiting[_T]:
        heard = monotonic()
        try:
            wanted = next(waiting)
            while True:
                ready = yield wanted
                if ready:
                    heard = monotonic()
                elif (silent_s := monotonic() - heard) > self.find_patience_s():
                    self.pgconn.finish()
                    msg = f"the server has not answered for {silent_s:.1f} s"
                    raise psycopg.OperationalError(msg)
                wanted = waiting.send(ready)
        except StopIteration as done:
            answer: _T = done.value
            return answer


Backend: TypeAlias = tuple[int, datetime]
"""A process of the server: its number, which another may get once it has ended, and its start."""


def backend_of(connection: Connection) -> Backend:
    """Tell which process works for a connection."""
    pid, started = connection.exec_driver_sql(_THIS).one()
    return pid, started


def end(connection: Connection, backend: Backend, *, timeout_s: float) -> None:
    """End a process whose connection was given up, and wait until it is gone.

    The race: it was stuck, and what it had been sent is still there to be read. When it moves
    again it would carry that out, up to the commit, at any time.
    """
    deadline = monotonic() + timeout_s
    while connection.exec_driver_sql(_END, backend).first() is not None:
        if monotonic() > deadline:
            msg = f"process {backend[0]} of the server does not end"
            raise UnavailableError(SILENT) from TimeoutError(msg)
        sleep(_LOOK_S)
