"""A service in this process, and a client of it."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from unittest.mock import patch

import httpx

from controller.cluster import Right
from controller.configuration import ServeSettings
from controller.http.app import ControllerApp, create_app
from tests.patience import until
from tidegauge.client.sync import LoopThread
from tidegauge.client.transport import Transport


@asynccontextmanager
async def in_process(
    settings: ServeSettings, *, checks_host: bool = False, right: Right | None = None
) -> AsyncIterator[tuple[ControllerApp, httpx.AsyncClient]]:
    """Start a service, and end it."""
    app = create_app(settings, checks_host=checks_host, right=right)
    await app.process.begin()
    await until(
        lambda: app.process.holds
    )  # a start on a busy machine goes on beside the probes
    transport = httpx.ASGITransport(app)
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://tests") as client:
            yield app, client
    finally:
        await app.process.close()


class Service(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """A service in this process: a transport that hands it requests of any thread, without a socket."""

    url = "http://localhost"

    def __init__(self, app: ControllerApp, thread: LoopThread) -> None:
        self.app = app
        self._transport = httpx.ASGITransport(app)
        self._thread = thread

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._thread.submit(self._answer(request)).result()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await asyncio.wrap_future(self._thread.submit(self._answer(request)))

    @contextmanager
    def reached_by_clients(self) -> Iterator[None]:
        """Let every client of the product that is made in this block ask this service."""
        defaults: Any = Transport.__init__.__kwdefaults__
        with patch.dict(defaults, transport=self):
            yield

    def run(self, work: Coroutine[Any, Any, object]) -> None:
        """Run something in the loop of the service."""
        self._thread.run(work)

    def pass_time(self, milliseconds: int) -> None:
        """Let listening time pass, by which writers and readers are silent for too long."""

        async def pass_it() -> None:
            listening = self.app.parts.clocks.listening
            listening.go_on_from(listening.stamp() + milliseconds)

        self._thread.run(pass_it())

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        sent = httpx.Request(
            request.method, request.url, headers=request.headers, stream=_Pieces(request)
        )
        answer = await self._transport.handle_async_request(sent)
        body = b"".join([part async for part in answer.aiter_raw()])
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
def served_in_process(
    settings: ServeSettings, *, checks_host: bool = False
) -> Iterator[Service]:
    """Start a service in this process that other threads ask, and end it."""
    thread = LoopThread("service")
    service = in_process(settings, checks_host=checks_host)
    app, _ = thread.run(service.__aenter__())

    async def end() -> None:
        await service.__aexit__(None, None, None)

    try:
        yield Service(app, thread)
    finally:
        thread.end(end)


@contextmanager
def called_in_process(
    settings: ServeSettings, *, checks_host: bool = False
) -> Iterator[httpx.Client]:
    """Start a service in this process for a client that is called as one of a server is."""
    with (
        served_in_process(settings, checks_host=checks_host) as service,
        httpx.Client(transport=service, base_url=service.url) as client,
    ):
        yield client
