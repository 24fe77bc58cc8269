"""Defects that can be planted in the product, to see whether the simulation finds them.

A defect is a context manager that patches the product. ``python -m tests.simulation SEED --defect
NAME`` runs with one.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

from controller.commit.sequencer import Sequencer
from controller.log import storage as log_storage
from controller.store import leases
from reader_client._reading import Reading

_Planting = Callable[[], AbstractContextManager[None]]
DEFECTS: dict[str, _Planting] = {}
"""All that can be planted, by name."""


def defect(plant: Callable[[], Iterator[None]]) -> _Planting:
    """Add a defect under the name of its function."""
    made = DEFECTS[plant.__name__] = contextmanager(plant)
    return made


@defect
def answer_before_the_commit() -> Iterator[None]:
    """Callers are answered once their change is decided, before it is on disk."""
    decide = Sequencer._decide

    def decide_and_answer(self: Sequencer, *given: Any) -> Any:
        decided = decide(self, *given)
        for submission in decided:
            submission.finish()
        return decided

    with mock.patch.object(Sequencer, "_decide", decide_and_answer):
        yield


@defect
def forgotten_sequences() -> Iterator[None]:
    """Which appends of writers are stored is not stored."""
    write = log_storage.write_appends

    def write_chunks(connection: Any, key: int, chunks: Any, _sequences: Any) -> None:
        write(connection, key, chunks, {})

    with mock.patch.object(log_storage, "write_appends", write_chunks):
        yield


@defect
def no_lease_check() -> Iterator[None]:
    """Transactions of a controller go on though another one has taken over."""
    with mock.patch.object(leases, "check_lease", return_value=None):
        yield


@defect
def reader_confirms_too_early() -> Iterator[None]:
    """What is being handed out is confirmed before its reader has seen it."""
    fetch = Reading._fetch

    async def fetch_and_confirm(self: Reading, *, limit: int) -> Any:
        found = await fetch(self, limit=limit)
        await self._member.report(dict(self.share.returned))
        return found

    with mock.patch.object(Reading, "_fetch", fetch_and_confirm):
        yield
