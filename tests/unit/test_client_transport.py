"""What the clients make of addresses and answers that are not those of the service."""

import asyncio
import re
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import pytest

from tests.server import free_port
from tidegauge.client.outage import ServiceUnreachableError, UnexpectedAnswerError
from tidegauge.client.transport import Transport
from tidegauge.errors import TidegaugeError
from tidegauge.wire.streams import StreamInfo


class _Stranger(BaseHTTPRequestHandler):
    """Answers with the statuses that the path names, in turn, and with a page for people."""

    asked: ClassVar[Counter[str]] = Counter()

    def do_GET(self) -> None:
        statuses = self.path.removeprefix("/").split("/")
        self.send_response(int(statuses[min(self.asked[self.path], len(statuses) - 1)]))
        self.asked[self.path] += 1
        self.send_header("content-length", "13")
        self.end_headers()
        self.wfile.write(b"<p>Hello.</p>")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def stranger() -> Iterator[str]:
    _Stranger.asked.clear()
    with HTTPServer(("127.0.0.1", 0), _Stranger) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def _refused(stranger: str, path: str, *, retry: bool) -> TidegaugeError:
    """Ask, and return the error in the end."""

    async def ask() -> None:
        transport = Transport(stranger)
        try:
            await transport.request("GET", path, answer=StreamInfo, retry=retry)
        finally:
            await transport.aclose()

    with pytest.raises(TidegaugeError) as caught:
        asyncio.run(ask())
    return caught.value


@pytest.mark.parametrize("status", [200, 307, 404, 500])
def test_an_answer_of_somebody_else_is_named(stranger: str, status: int) -> None:
    error = _refused(stranger, f"/{status}", retry=True)
    assert isinstance(error, UnexpectedAnswerError)
    assert (error.url, error.status, error.body) == (stranger, status, "<p>Hello.</p>")
    assert str(error) == (
        f"{stranger} does not answer like Tidegauge (status {status}, '<p>Hello.</p>'): is it "
        "the URL of a service of this version?"
    )
    assert _Stranger.asked.total() == 1


def test_who_says_nothing_is_not_quoted() -> None:
    assert str(UnexpectedAnswerError("http://one:80", 404, "")) == (
        "http://one:80 does not answer like Tidegauge (status 404): is it the URL of a "
        "service of this version?"
    )


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_proxy_that_lost_the_service_is_asked_again_where_that_does_no_harm(
    stranger: str, status: int
) -> None:
    error = _refused(stranger, f"/{status}/{status}/404", retry=True)
    assert isinstance(error, UnexpectedAnswerError)
    assert _Stranger.asked.total() == 3
    lost = _refused(stranger, f"/{status}", retry=False)
    assert isinstance(lost, ServiceUnreachableError)
    assert f"a proxy says {status}; is the service running there?" in str(lost)
    assert _Stranger.asked.total() == 4


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8470", "localhost:8470", "ftp://one", "http://", "http://one:port", ""]
)
def test_an_address_that_cannot_be_is_refused_at_once(url: str) -> None:
    with pytest.raises(ValueError, match="write http://HOST:PORT"):
        Transport(url)


def test_a_service_that_says_nothing_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidegauge.client.transport._SILENCE_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        refused = _refused(url, "/v1/streams", retry=False)
    assert str(refused) == (
        f"no answer from {url}: the request was sent, but nothing came back in time; "
        "is the service running there?"
    )


def test_an_outage_is_told_once_when_it_begins_and_once_when_it_ends(stranger: str) -> None:
    told: list[str] = []

    async def ask(transport: Transport, path: str) -> None:
        with pytest.raises(UnexpectedAnswerError):
            await transport.request("GET", path, answer=StreamInfo, retry=True)

    async def scene() -> None:
        transport = Transport(stranger, tell=told.append)
        await asyncio.gather(*(ask(transport, f"/502/503/20{n}") for n in range(3)))
        await ask(transport, "/200")
        await transport.aclose()

    asyncio.run(scene())
    begun, ended = told
    assert begun == f"retrying {stranger} for up to 60 s: a proxy says 502"
    assert re.fullmatch(re.escape(stranger) + r" answers again, after \d+\.\d s", ended)


def test_an_outage_of_who_does_not_give_up_is_told_without_an_end(stranger: str) -> None:
    told: list[str] = []

    async def scene() -> None:
        transport = Transport(stranger, tell=told.append)
        transport.gives_up = False
        with pytest.raises(UnexpectedAnswerError):
            await transport.request("GET", "/502/200", answer=StreamInfo, retry=True)
        await transport.aclose()

    asyncio.run(scene())
    assert told[0] == f"retrying {stranger} until it answers: a proxy says 502"


def test_an_outage_that_outlasts_a_request_is_not_told_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scene() -> None:
        transport = Transport(url, retry_for=timedelta(milliseconds=200))
        for _ in range(2):
            with pytest.raises(ServiceUnreachableError):
                await transport.request("GET", "/", answer=StreamInfo, retry=True)
        await transport.aclose()

    url = f"http://127.0.0.1:{free_port()}"
    asyncio.run(scene())
    (record,) = caplog.records
    assert (record.levelname, record.name) == ("WARNING", "tidegauge.client.outage")
    assert record.getMessage().startswith(f"retrying {url} for up to 0.2 s: ")


def test_who_is_not_asked_again_is_no_outage(stranger: str) -> None:
    told: list[str] = []

    async def scene() -> None:
        transport = Transport(stranger, tell=told.append)
        with pytest.raises(ServiceUnreachableError):
            await transport.request("GET", "/503", answer=StreamInfo, retry=False)
        await transport.aclose()

    asyncio.run(scene())
    assert told == []


def test_an_address_with_a_user_is_refused_without_showing_its_password() -> None:
    with pytest.raises(
        ValueError, match="remove the user information before @tides: the service"
    ) as refused:
        Transport("http://somebody:hunter2@tides:8470")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("length", [10, 200_000])
def test_an_address_is_written_alike_however_long_its_query_is(length: int) -> None:
    asked: list[bytes] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n"))
        writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    async def scene() -> None:
        server = await asyncio.start_server(refuse, "127.0.0.1", 0, limit=2**20)
        port = server.sockets[0].getsockname()[1]
        transport = Transport(f"http://127.0.0.1:{port}/behind/")
        params = {"position": "0:1," * (length // 4), "stream_id": None, "wait_ms": 0}
        with pytest.raises(UnexpectedAnswerError):
            await transport.request(
                "GET", "/v1/marks", answer=StreamInfo, retry=False, params=params
            )
        await transport.aclose()
        server.close()

    asyncio.run(scene())
    position = b"0%3A1%2C" * (length // 4)
    assert asked == [b"GET /behind/v1/marks?position=" + position + b"&wait_ms=0 HTTP/1.1\r\n"]


def test_a_patience_that_is_no_timedelta_is_refused_with_the_cure() -> None:
    with pytest.raises(TypeError, match=r"retry_for is 30; pass a timedelta"):
        Transport("http://127.0.0.1:1", retry_for=30)  # type: ignore[arg-type]
