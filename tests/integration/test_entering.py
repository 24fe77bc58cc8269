"""A client that cannot enter its ``with`` block leaves nothing behind."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any

import httpx
import pytest

from reader_client import AsyncReader, Reader, UnknownGroupError
from tests.server import ServerProcess
from writer_client import (
    AsyncTimeReporter,
    AsyncWriter,
    TimeReporter,
    UnknownStreamError,
    Writer,
)

pytestmark = pytest.mark.only_on("sqlite", "clients know the service only")


@pytest.mark.parametrize("kind", [Writer, TimeReporter, Reader])
def test_who_cannot_enter_leaves_no_thread(
    shared_server: ServerProcess, kind: Callable[..., AbstractContextManager[Any]]
) -> None:
    threads = set(threading.enumerate())
    with (
        pytest.raises((UnknownStreamError, UnknownGroupError)),
        kind(shared_server.url, "tests/none", "w"),
    ):
        pass
    assert set(threading.enumerate()) <= threads


@pytest.mark.parametrize("kind", [AsyncWriter, AsyncTimeReporter, AsyncReader])
def test_who_cannot_enter_leaves_no_connection(
    shared_server: ServerProcess,
    kind: Callable[..., AbstractAsyncContextManager[Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[httpx.AsyncClient] = []
    make = httpx.AsyncClient.__init__

    def remember(client: httpx.AsyncClient, **options: Any) -> None:
        make(client, **options)
        made.append(client)

    async def enter() -> None:
        with pytest.raises((UnknownStreamError, UnknownGroupError)):
            async with kind(shared_server.url, "tests/none", "w"):
                pass

    monkeypatch.setattr(httpx.AsyncClient, "__init__", remember)
    asyncio.run(enter())
    assert [client.is_closed for client in made] == [True]
