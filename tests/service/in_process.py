"""A service in this process, and a client of it."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import httpx

from controller.configuration import ServeSettings
from controller.http.app import ControllerApp, create_app
from tidegauge.client.sync import LoopThread


@asynccontextmanager
async def in_process(
    settings: ServeSettings, *, checks_host: bool = False
) -> AsyncIterator[tuple[ControllerApp, httpx.AsyncClient]]:
    """Start a service, and end it."""
    app = create_app(settings, checks_host=checks_host)
    await app.process.begin()
    transport = httpx.ASGITransport(app)
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://tests") as client:
            yield app, client
    finally:
        await app.process.close()


class _Direct(httpx.BaseTransport):
    """Hands requests to an application in another thread, without a socket."""

    def __init__(self, app: ControllerApp, thread: LoopThread) -> None:
        self._transport = httpx.ASGITransport(app)
        self._thread = thread

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._thread.submit(self._answer(request)).result()

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        sent = httpx.Request(
            request.method, request.url, headers=request.headers, stream=_Pieces(request)
        )
        answer = await self._transport.handle_async_request(sent)
        body = await answer.aread()
        return httpx.Response(answer.status_code, headers=answer.headers, content=body)


class _Pieces(httpx.AsyncByteStream):
    """The body of a request in its pieces."""

    def __init__(self, request: httpx.Request) -> None:
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        assert isinstance(self._request.stream, httpx.SyncByteStream)
        for piece in self._request.stream:
            yield piece


@contextmanager
def called_in_process(
    settings: ServeSettings, *, checks_host: bool = False
) -> Iterator[httpx.Client]:
    """Start a service in this process for a client that is called as one of a server is."""
    thread = LoopThread("service")
    service = in_process(settings, checks_host=checks_host)
    app, _ = thread.submit(service.__aenter__()).result()
    try:
        with httpx.Client(
            transport=_Direct(app, thread), base_url="http://localhost"
        ) as client:
            yield client
    finally:
        thread.submit(service.__aexit__(None, None, None)).result()
        thread.end(_nothing)


async def _nothing() -> None:
    pass
