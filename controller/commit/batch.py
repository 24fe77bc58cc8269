"""What one transaction will write, and the changes it is made of."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from sqlalchemy import Connection

Write = Callable[[Connection], None]
WriteAll = Callable[[Connection, list[Any]], None]


_ROW_BYTES = 256
"""As long as a short row is at most."""


def rows_of(data: bytes) -> int:
    """Return as how many short rows a batch counts a long one."""
    return 1 + len(data) // _ROW_BYTES


class Touched(Protocol):
    """Something in memory that mirrors rows, and takes part in batches."""

    def before_commit(self, batch: "Batch") -> None:
        """Add what has to be written, after all changes of the batch are decided."""

    def after_commit(self) -> None:
        """Publish what is durable now, and wake the calls that wait."""

    async def reload(self) -> None:
        """Read everything back from disk, after a failed commit."""


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

    def touch(self, thing: Touched) -> None:
        """Add a thing that takes part: it adds its changes, and publishes or reloads afterwards."""
        self.touched[thing] = None

    def carry_out(self, connection: Connection) -> None:
        """Write everything, in a transaction."""
        for work in self.writes:
            work(connection)
        for work_on_all, items in self.together.items():
            work_on_all(connection, items)


@dataclass(slots=True, eq=False)
class Submission:
    """A change on its way through a batch, whose future gets the result.

    ``decide`` changes memory and adds writes to the batch; what raises must have changed nothing.
    ``answer`` makes the result from what is durable; without it, it is what ``decide`` returned.
    Then `finish` or `fail` is called once.
    """

    _decide: Callable[[Batch], Any]
    _answer: Callable[[], Any] | None
    future: asyncio.Future[Any]
    _result: Any = None

    def decide(self, batch: Batch) -> None:
        """Decide, and keep the result until it is durable."""
        self._result = self._decide(batch)

    def finish(self) -> None:
        """Give the caller the result."""
        if self.future.done():
            return
        try:
            result = self._result if self._answer is None else self._answer()
        except Exception as error:  # noqa: BLE001 (its caller gets it)
            self.fail(error)
        else:
            self.future.set_result(result)

    def fail(self, error: Exception) -> None:
        """Give the caller the error."""
        if not self.future.done():
            self.future.set_exception(error)
        del self.future  # the error's traceback leads here: it would hold itself
