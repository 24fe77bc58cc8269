"""How many changes share a transaction."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection

from controller.commit.batch import Batch
from controller.commit.sequencer import Sequencer
from controller.database import Database, LeaseLostError
from tests.databases import open_database
from tidegauge.errors import UnavailableError

pytestmark = pytest.mark.anyio


class _Thing:
    """Something that many of are touched."""

    def before_commit(self, batch: Batch) -> None:
        """Write nothing."""

    def after_commit(self) -> None:
        """Publish nothing."""

    async def reload(self) -> None:
        """Never asked to."""


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with closing(open_database(f"sqlite:///{tmp_path}/one.db")) as database:
        yield database


async def test_who_comes_after_much_was_touched_shares_the_next_transaction(
    database: Database,
) -> None:
    order: list[int] = []
    sizes: list[int] = []
    sequencer = Sequencer(database)
    sequencer.on_batch = lambda size, _seconds: sizes.append(size)

    def decide(place: int, count: int, batch: Batch) -> None:
        order.append(place)
        for _ in range(count):
            batch.touch(_Thing())

    sequencer.start()
    touched = enumerate([200, 50, 10, 1, 300, 2, 2])
    changes = [partial(decide, place, count) for place, count in touched]
    await asyncio.gather(*map(sequencer.submit, changes))
    await sequencer.close()
    assert order == sorted(order)
    assert sizes == [3, 2, 2]


def _write_nothing(_connection: Connection) -> None:
    pass


async def test_what_nobody_waits_for_is_no_error_when_a_lease_is_lost(
    database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(*_: object, **__: object) -> None:
        reason = "the lease is lost"
        raise LeaseLostError(reason)

    monkeypatch.setattr(database, "write", refuse)
    sequencer = Sequencer(database)
    sequencer.start()
    for _ in range(24):
        sequencer.submit_quietly(lambda batch: batch.write(_write_nothing))
    with pytest.raises(LeaseLostError):
        await sequencer.submit(lambda batch: batch.write(_write_nothing))
    await sequencer.close()
    assert [one for one in caplog.records if one.levelno > logging.INFO] == []


class _Unpublished(_Thing):
    """Fails to publish what is stored, once."""

    def __init__(self) -> None:
        self.happened: list[str] = []

    def decide(self, batch: Batch) -> str:
        self.happened.append("decided")
        batch.touch(self)
        return "answer"

    def after_commit(self) -> None:
        if self.happened == ["decided"]:
            raise ZeroDivisionError

    async def reload(self) -> None:
        self.happened.append("read back")


async def test_callers_are_answered_and_what_is_stored_is_read_back_if_it_cannot_be_published(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    thing, sequencer = _Unpublished(), Sequencer(database)
    sequencer.start()
    async with asyncio.timeout(10):
        answers = [await sequencer.submit(thing.decide) for _ in range(2)]
    await sequencer.close()
    assert answers == ["answer", "answer"]
    assert thing.happened == ["decided", "read back", "decided"]
    assert [one.getMessage() for one in caplog.records] == [
        "what was stored cannot be published"
    ]


def _write(error: Exception | None, batch: Batch) -> None:
    def work(_connection: Connection) -> None:
        if error is not None:
            raise error

    batch.write(work)


async def test_an_outage_is_a_line_for_each_reason_until_it_is_over_and_a_defect_a_traceback_each(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    full, away = UnavailableError("100 % full"), UnavailableError("away")
    defects = ZeroDivisionError(), ZeroDivisionError()
    sequencer = Sequencer(database)
    sequencer.start()
    for error in (full, away, full, full, None, full, *defects, full):
        written = sequencer.submit(partial(_write, error))
        await asyncio.wait({written})
        assert written.exception() is error
    await sequencer.close()
    said = [one for one in caplog.records if one.name == "controller.commit.sequencer"]
    assert [(one.getMessage(), one.exc_info is not None) for one in said] == [
        ("transactions fail: 100 % full", False),
        ("transactions fail: away", False),
        ("transactions fail: 100 % full", False),
        ("a transaction failed", True),
        ("a transaction failed", True),
    ]
