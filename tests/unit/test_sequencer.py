"""How many changes share a transaction."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection

from controller.commit.batch import Batch
from controller.commit.sequencer import Sequencer
from controller.database import LeaseLostError
from tests.databases import open_database
from tidegauge.errors import UnavailableError


class _Thing:
    """Something that many of are touched."""

    def before_commit(self, batch: Batch) -> None:
        """Write nothing."""

    def after_commit(self) -> None:
        """Publish nothing."""

    async def reload(self) -> None:
        """Never asked to."""


async def _batches(sequencer: Sequencer, touched: list[int]) -> list[int]:
    """Submit changes that touch so many things each; tell how many share each transaction."""
    order: list[int] = []
    sizes: list[int] = []
    sequencer.on_batch = lambda size, _seconds: sizes.append(size)

    def decide(place: int, count: int, batch: Batch) -> None:
        order.append(place)
        for _ in range(count):
            batch.touch(_Thing())

    sequencer.start()
    changes = [partial(decide, at, count) for at, count in enumerate(touched)]
    await asyncio.gather(*map(sequencer.submit, changes))
    await sequencer.close()
    assert order == sorted(order)
    return sizes


def test_who_comes_after_much_was_touched_shares_the_next_transaction(tmp_path: Path) -> None:
    with closing(open_database(f"sqlite:///{tmp_path}/one.db")) as database:
        sizes = asyncio.run(_batches(Sequencer(database), [200, 50, 10, 1, 300, 2, 2]))
    assert sizes == [3, 2, 2]


def _write_nothing(_connection: Connection) -> None:
    pass


def test_what_nobody_waits_for_is_no_error_when_a_lease_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(*_: object, **__: object) -> None:
        reason = "the lease is lost"
        raise LeaseLostError(reason)

    async def scene(sequencer: Sequencer) -> None:
        sequencer.start()
        for _ in range(24):
            sequencer.submit_quietly(lambda batch: batch.write(_write_nothing))
        with pytest.raises(LeaseLostError):
            await sequencer.submit(lambda batch: batch.write(_write_nothing))
        await sequencer.close()

    with closing(open_database(f"sqlite:///{tmp_path}/one.db")) as database:
        monkeypatch.setattr(database, "write", refuse)
        asyncio.run(scene(Sequencer(database)))
    assert [one for one in caplog.records if one.levelno > logging.INFO] == []


class _Unpublished(_Thing):
    """Fails to publish what is stored, once."""

    def __init__(self) -> None:
        self.happened: list[str] = []

    def after_commit(self) -> None:
        if self.happened == ["decided"]:
            raise ZeroDivisionError

    async def reload(self) -> None:
        self.happened.append("read back")


async def _touch_twice(sequencer: Sequencer, thing: _Unpublished) -> None:
    def decide(batch: Batch) -> str:
        thing.happened.append("decided")
        batch.touch(thing)
        return "answer"

    sequencer.start()
    async with asyncio.timeout(10):
        assert [await sequencer.submit(decide) for _ in range(2)] == ["answer", "answer"]
    await sequencer.close()


def test_callers_are_answered_and_what_is_stored_is_read_back_if_it_cannot_be_published(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    thing = _Unpublished()
    with closing(open_database(f"sqlite:///{tmp_path}/one.db")) as database:
        asyncio.run(_touch_twice(Sequencer(database), thing))
    assert thing.happened == ["decided", "read back", "decided"]
    assert [one.getMessage() for one in caplog.records] == [
        "what was stored cannot be published"
    ]


async def _write_in_turn(sequencer: Sequencer, errors: Sequence[Exception | None]) -> None:
    """Submit changes whose transactions fail so, or do not."""
    sequencer.start()
    for error in errors:
        written = sequencer.submit(partial(_write, error))
        await asyncio.wait({written})
        assert written.exception() is error
    await sequencer.close()


def _write(error: Exception | None, batch: Batch) -> None:
    def work(_connection: Connection) -> None:
        if error is not None:
            raise error

    batch.write(work)


def test_an_outage_is_a_line_for_each_reason_until_it_is_over_and_a_defect_a_traceback_each(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    full, away = UnavailableError("full"), UnavailableError("away")
    errors = [
        full,
        away,
        full,
        full,
        None,
        full,
        ZeroDivisionError(),
        ZeroDivisionError(),
        full,
    ]
    with closing(open_database(f"sqlite:///{tmp_path}/one.db")) as database:
        asyncio.run(_write_in_turn(Sequencer(database), errors))
    said = [one for one in caplog.records if one.name == "controller.commit.sequencer"]
    assert [(one.getMessage(), one.exc_info is not None) for one in said] == [
        ("transactions fail: full", False),
        ("transactions fail: away", False),
        ("transactions fail: full", False),
        ("a transaction failed", True),
        ("a transaction failed", True),
    ]
