"""A controller goes on standing by, whatever keeps it from holding the database."""

import asyncio
from typing import Any, cast

import pytest

from controller import ServeSettings, process
from controller.cluster import Right
from controller.database import DatabaseUnusableError
from controller.process import Process
from tidegauge.errors import UnavailableError

pytestmark = pytest.mark.anyio


class _Right:
    """A right that may be had; the database is unavailable to whoever has it."""

    holder = awaited = ""
    is_certain = True

    def __init__(self) -> None:
        self.acquired = 0
        self.again = asyncio.Event()
        self.is_free = asyncio.Event()

    async def acquire(self) -> None:
        await self.is_free.wait()
        self.acquired += 1
        if self.acquired == 2:
            self.again.set()

    async def keep(self) -> None:
        await asyncio.Event().wait()

    async def open(self) -> Any:
        reason = "the database is unavailable"
        raise UnavailableError(reason)

    async def leave(self) -> None:
        if self.acquired:
            await self.open()

    def close(self) -> None:
        pass


async def test_a_database_that_goes_away_while_it_is_read_ends_no_controller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "_AGAIN_S", 0.0)
    right = _Right()
    right.is_free.set()
    controller = Process(ServeSettings(), cast("Right", right))
    await controller.begin()
    await asyncio.wait_for(right.again.wait(), 10)
    assert not controller.failed
    await controller.close()


async def test_a_standby_that_ends_does_not_take_over_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "_QUICK_START_S", 0.0)
    right = _Right()
    controller = Process(ServeSettings(), cast("Right", right))
    await controller.begin()
    controller.begin_to_end()
    await asyncio.sleep(0)
    right.is_free.set()
    await controller.close()
    assert (right.acquired, controller.ailments()) == (0, [])


async def test_why_a_right_cannot_be_kept_is_told_though_the_streams_are_still_read(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Unkeepable(_Right):
        async def keep(self) -> None:
            reason = "a pooler"
            raise DatabaseUnusableError(reason)

        async def open(self) -> Any:
            await asyncio.Event().wait()

        async def leave(self) -> None:
            pass

    monkeypatch.setattr(process, "_AGAIN_S", 0.0)
    right = Unkeepable()
    right.is_free.set()
    controller = Process(ServeSettings(), cast("Right", right))
    await controller.begin()
    await asyncio.wait_for(right.again.wait(), 10)
    await controller.close()
    assert "cannot hold the database: a pooler" in caplog.text
