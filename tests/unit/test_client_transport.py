"""What the clients make of addresses and answers that are not those of the service."""

import asyncio
import re
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar, cast

import pytest
from pydantic import BaseModel

from tests.server import free_port
from tidegauge.client.outage import ServiceUnreachableError, UnexpectedAnswerError
from tidegauge.client.route import RedirectError, target_of
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


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("127.0.0.1", "connection refused"),
        ("nobody.invalid", "[Errno -2] Name or service not known"),
    ],
)
def test_who_listens_nowhere_is_named_with_the_reason_of_the_system(
    host: str, reason: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://{host}:{closed.getsockname()[1]}"
    refused = _refused(url, "/v1/streams", retry=False)
    assert str(refused) == f"no answer from {url}: {reason}; is the service running there?"


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


class _Controller(BaseHTTPRequestHandler):
    """Holds the database (``holder``), or stands by as its server's ``location`` says."""

    def do_GET(self) -> None:
        server = cast("_Controllers", self.server)
        server.asked.append(f"{self.path} {self.headers.get('authorization')}")
        body = b'{"watermark": 1}'
        if server.location is None:
            self.send_response(200)
        elif server.location:
            self.send_response(307)
            self.send_header("location", server.location + self.path)
            body = b""
        else:
            self.send_response(503)
            self.send_header("content-type", "application/problem+json")
            body = b'{"code": "unavailable", "reason": "this controller stands by"}'
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _Controllers(HTTPServer):
    """A controller at an address of its own.

    Attributes
    ----------
    location
        None: it holds the database. "": no controller does. Else the holder's address.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Controller)
        self.location: str | None = None
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@pytest.fixture
def pair() -> Iterator[tuple[_Controllers, _Controllers]]:
    """Start two controllers, of which the second holds, and the first redirects to it."""
    with _Controllers() as first, _Controllers() as second:
        first.location = second.url
        threads = [threading.Thread(target=one.serve_forever) for one in (first, second)]
        for thread in threads:
            thread.start()
        yield first, second
        for server, thread in zip((first, second), threads, strict=True):
            server.shutdown()
            thread.join()


class _Answer(BaseModel):
    watermark: int


def _ask(url: str, *, times: int = 1, **options: Any) -> None:
    async def ask() -> None:
        transport = Transport(url, token="secret", **options)
        for _ in range(times):
            answer = await transport.request(
                "GET", "/v1/w", answer=_Answer, retry=False, params={"x": 1}
            )
            assert answer.watermark == 1
        await transport.aclose()

    asyncio.run(ask())


def test_a_client_that_knows_the_standby_only_is_led_to_the_holder_once(
    pair: tuple[_Controllers, _Controllers],
) -> None:
    standby, holder = pair
    _ask(standby.url, times=3)
    assert standby.asked == ["/v1/w?x=1 Bearer secret"]
    assert holder.asked == ["/v1/w?x=1 Bearer secret"] * 3


@pytest.mark.parametrize("stands_by", ["", None], ids=["stands by", "is gone"])
def test_the_next_address_is_asked_at_once(
    pair: tuple[_Controllers, _Controllers], stands_by: str | None
) -> None:
    standby, holder = pair
    standby.location = stands_by
    gone = f"http://127.0.0.1:{free_port()}" if stands_by is None else standby.url
    told: list[str] = []
    _ask(f"{gone}, {holder.url}/", times=2, retry_for=timedelta(0), tell=told.append)
    assert (len(standby.asked), len(holder.asked)) == (0 if stands_by is None else 1, 2)
    assert told == []


def test_a_take_over_is_waited_for_though_nothing_may_be_repeated(
    pair: tuple[_Controllers, _Controllers],
) -> None:
    standby, holder = pair
    standby.location = holder.location = ""

    def take_over(_line: str) -> None:
        holder.location = None

    _ask(f"{standby.url},{holder.url}", tell=take_over)
    assert len(holder.asked) == 2


def test_a_redirect_in_a_circle_is_an_unreachable_service(
    pair: tuple[_Controllers, _Controllers],
) -> None:
    standby, holder = pair
    holder.location = standby.url
    with pytest.raises(
        ServiceUnreachableError, match=r"which redirects, too: none of them holds"
    ):
        _ask(standby.url, retry_for=timedelta(0))
    # A target that cannot be used does not keep a client from its other addresses.
    standby.location, holder.location = "http://127.0.0.1:0", None
    _ask(f"{standby.url},{holder.url}", retry_for=timedelta(0))


def test_a_holder_that_cannot_be_reached_is_named(
    pair: tuple[_Controllers, _Controllers],
) -> None:
    standby, _ = pair
    standby.location = gone = f"http://127.0.0.1:{free_port()}"
    said = rf"stands by for {gone} \(its --advertise-url\), which cannot be reached: connection refused"
    with pytest.raises(ServiceUnreachableError, match=said):
        _ask(standby.url, retry_for=timedelta(0))


@pytest.mark.parametrize(
    ("asked", "location", "said"),
    [
        ("https://a:8470", "http://b:8470/v1/w", "where no token is sent without https"),
        ("http://a", "ftp://b/v1/w", "'ftp://b' is not a service URL"),
        ("http://a", "/elsewhere", "'/elsewhere' is not a service URL"),
        ("http://a", "http://me:pw@b/v1/w", "remove the user information"),
    ],
)
def test_a_redirect_that_cannot_be_followed_is_named(
    asked: str, location: str, said: str
) -> None:
    with pytest.raises(RedirectError, match=re.escape(said)):
        target_of(location, asked=asked, path="/v1/w")


def test_a_holder_behind_a_path_is_asked_there() -> None:
    location = "https://tides/b/v1/w?wait_ms=1"
    assert target_of(location, asked="http://a", path="/v1/w") == "https://tides/b"


@pytest.mark.parametrize("url", ["http://a:8470,", "http://a:8470,b:8470", ","])
def test_a_list_of_addresses_with_a_typo_is_refused_at_once(url: str) -> None:
    with pytest.raises(ValueError, match="write http://HOST:PORT, several with commas between"):
        Transport(url)


def test_a_wrong_address_is_reported_sooner_than_a_take_over(
    pair: tuple[_Controllers, _Controllers],
) -> None:
    said: list[str] = []
    limits: dict[str, Any] = {
        "retry_for": timedelta(seconds=7),
        "first_contact": timedelta(milliseconds=1),
    }
    with pytest.raises(ServiceUnreachableError):
        _ask(f"http://127.0.0.1:{free_port()}", tell=said.append, **limits)
    assert said == []
    standby, _ = pair
    standby.location = ""

    def hold(line: str) -> None:
        said.append(line)
        standby.location = None

    _ask(standby.url, tell=hold, **limits)
    assert said[0].startswith(f"retrying {standby.url} for up to 7 s: ")


def test_the_next_address_is_asked_where_a_paused_holder_says_nothing(
    pair: tuple[_Controllers, _Controllers], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegauge.client.transport._SILENCE_S", 0.1)
    _, holder = pair
    with socket.create_server(("127.0.0.1", 0)) as silent:
        paused = f"http://127.0.0.1:{silent.getsockname()[1]}"

        async def ask() -> None:
            transport = Transport(
                f"{paused},{holder.url}", first_contact=timedelta(milliseconds=1)
            )
            answer = await transport.request("GET", "/v1/w", answer=_Answer, retry=True)
            assert answer.watermark == 1
            await transport.aclose()

        asyncio.run(ask())
    assert len(holder.asked) == 1
