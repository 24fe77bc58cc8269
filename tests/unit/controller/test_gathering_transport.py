"""The way of bytes out of the service."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
import uvloop

from controller.serving.protocol import _GatheringTransport


class _Hasty(asyncio.Protocol):
    """Answers a connection that is lost in the same turn."""

    def __init__(self, lost: asyncio.Event) -> None:
        self._lost = lost

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        connection = cast("asyncio.Transport", transport)
        gathering = _GatheringTransport(connection)
        connection.abort()
        gathering.write(b"too late")

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 (asyncio's)
        asyncio.get_running_loop().call_soon(self._lost.set)


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_what_is_written_to_a_lost_connection_is_dropped_without_a_word(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    complaints: list[dict[str, Any]] = []

    async def scene() -> None:
        loop, lost = asyncio.get_running_loop(), asyncio.Event()
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        server = await loop.create_server(lambda: _Hasty(lost), "127.0.0.1", 0)
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        await asyncio.wait_for(lost.wait(), 20)
        writer.close()
        server.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(scene())
    assert complaints == []
