"""What the clients make of addresses and answers that are not those of the service."""

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from types import MappingProxyType
from typing import Any, Self

import httpx
import pytest
from pydantic import BaseModel

from tests.patience import until
from tests.server import free_port
from tidegauge.client.outage import (
    ServiceUnreachableError,
    TwoServicesError,
    UnexpectedAnswerError,
)
from tidegauge.client.route import target_of
from tidegauge.client.transport import Transport
from tidegauge.errors import TidegaugeError
from tidegauge.wire.streams import StreamInfo

AT_ONCE = timedelta(0)
STANDS_BY, HOLDS = "", None


class _Answer(BaseModel):
    watermark: int


class _Hosts(httpx.MockTransport):
    """What hosts answer in turn, of which the last goes on, and what each was asked.

    A number is the status of a page for people, an address that of the holder a standby points to.
    Each names the database ``one`` but for those that ``databases`` says.
    """

    def __init__(
        self,
        databases: Mapping[str, str] = MappingProxyType({}),
        **turns: list[int | str | httpx.TransportError | None],
    ) -> None:
        super().__init__(self._answer)
        self.databases = dict(databases)
        self.turns = turns
        self.asked: dict[str, list[str]] = {host: [] for host in turns}

    def _answer(self, request: httpx.Request) -> httpx.Response:
        host, path = request.url.host, request.url.raw_path.decode()
        self.asked[host].append(f"{path} {request.headers.get('authorization')}")
        named = {"tidegauge-database": self.databases.get(host, "one")}
        if path == "/readyz" and not isinstance(self.turns[host][0], Exception):
            return httpx.Response(503, headers=named)
        turn, *later = self.turns[host]
        self.turns[host] = later or [turn]
        match turn:
            case Exception():
                raise turn
            case int():
                return httpx.Response(turn, text="<p>Hello.</p>")
            case None:
                return httpx.Response(200, json={"watermark": 1})
            case "":
                problem = {"code": "unavailable", "reason": "this controller stands by"}
                headers = {"content-type": "application/problem+json"}
                return httpx.Response(503, json=problem, headers=headers | named)
        return httpx.Response(307, headers={"location": turn + path} | named)


def _ask(
    url: str,
    hosts: _Hosts | None = None,
    *,
    times: int = 1,
    retry: bool = False,
    **options: Any,
) -> list[str]:
    """Ask for a watermark, and return what was logged of outages."""
    logged: list[str] = []

    async def ask() -> None:
        options.setdefault("log", logged.append)
        transport = Transport(url, token="secret", transport=hosts, **options)
        try:
            for _ in range(times):
                answer = await transport.request(
                    "GET", "/v1/w", answer=_Answer, retry=retry, params={"x": 1}
                )
                assert answer.watermark == 1
        finally:
            await transport.aclose()

    asyncio.run(ask())
    return logged


def _refused(url: str, hosts: _Hosts | None = None, **options: Any) -> TidegaugeError:
    with pytest.raises(TidegaugeError) as caught:
        _ask(url, hosts, **options)
    return caught.value


@pytest.mark.parametrize("status", [200, 307, 404, 500])
def test_an_answer_of_somebody_else_is_named(status: int) -> None:
    hosts = _Hosts(other=[status])
    error = _refused("http://other", hosts, retry=True)
    assert isinstance(error, UnexpectedAnswerError)
    assert (error.url, error.status, error.body) == ("http://other", status, "<p>Hello.</p>")
    assert str(error) == (
        f"http://other does not answer like Tidegauge (status {status}, '<p>Hello.</p>'): is it "
        "the URL of a service of this version?"
    )
    assert len(hosts.asked["other"]) == 1


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_proxy_that_lost_the_service_is_asked_again_where_that_does_no_harm(
    status: int,
) -> None:
    hosts = _Hosts(proxy=[status, status, 404])
    assert isinstance(_refused("http://proxy", hosts, retry=True), UnexpectedAnswerError)
    assert len(hosts.asked["proxy"]) == 3
    hosts, logged = _Hosts(proxy=[status]), list[str]()
    lost = _refused("http://proxy", hosts, log=logged.append)
    assert isinstance(lost, ServiceUnreachableError)
    assert f"a proxy says {status}; is the service running there?" in str(lost)
    # Whoever does not ask again has no outage.
    assert (len(hosts.asked["proxy"]), logged) == (1, [])


@pytest.mark.parametrize(
    ("url", "cure"),
    [
        *((url, "write http://HOST:PORT") for url in ("127.0.0.1:8470", "localhost:8470")),
        *((url, "write http://HOST:PORT") for url in ("ftp://one", "http://one:port", "")),
        *((url, "several separated by commas") for url in ("http://a:8470,", ",")),
        ("http://a:8470,b:8470", "several separated by commas"),
        ("http://", "write http://HOST:PORT"),
        (
            "http://somebody:hunter2@a:8470",
            "remove the user information before @a: the service",
        ),
    ],
)
def test_an_address_that_cannot_be_is_refused_at_once(url: str, cure: str) -> None:
    with pytest.raises(ValueError, match=cure) as refused:
        Transport(url)
    assert "hunter2" not in str(refused.value)


def test_a_patience_that_is_no_timedelta_is_refused_with_the_cure() -> None:
    with pytest.raises(TypeError, match=r"retry_for is 30; pass a timedelta"):
        Transport("http://127.0.0.1:1", retry_for=30)  # type: ignore[arg-type]


def test_a_service_that_says_nothing_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidegauge.client.transport._SILENCE_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        refused = _refused(url)
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
    url = f"http://{host}:{free_port()}"
    refused = _refused(url, retry_for=AT_ONCE)
    assert str(refused) == f"no answer from {url}: {reason}; is the service running there?"


@pytest.mark.anyio
async def test_an_outage_is_logged_once_when_it_begins_and_once_when_it_ends() -> None:
    logged: list[str] = []
    hosts = _Hosts(proxy=[*(502, 502, 502), *(503, 503, 503), 200])

    async def ask(transport: Transport) -> None:
        with pytest.raises(UnexpectedAnswerError):
            await transport.request("GET", "/", answer=StreamInfo, retry=True)

    transport = Transport("http://proxy", log=logged.append, transport=hosts)
    await asyncio.gather(*(ask(transport) for _ in range(3)))
    await ask(transport)
    transport.gives_up = False
    hosts.turns["proxy"] = [502, 200]
    await ask(transport)
    await transport.aclose()
    begun, ended, begun_again, _ = logged
    assert begun == "retrying http://proxy for up to 60 s: a proxy says 502"
    assert re.fullmatch(r"http://proxy answers again, after \d+\.\d s", ended)
    assert begun_again == "retrying http://proxy until it answers: a proxy says 502"


@pytest.mark.anyio
@pytest.mark.parametrize("length", [10, 200_000])
async def test_an_address_is_written_alike_however_long_its_query_is(length: int) -> None:
    params = {"position": "0:1," * (length // 4), "stream_id": None, "wait_ms": 0}
    async with _Listener() as service:
        transport = Transport(f"{service.url}/behind/")
        await transport.request("GET", "/v1/w", answer=_Answer, retry=False, params=params)
        await transport.aclose()
    position = "0%3A1%2C" * (length // 4)
    assert service.heard == [f"/behind/v1/w?position={position}&wait_ms=0 None"]


def test_a_client_that_knows_the_standby_only_is_led_to_the_holder_once() -> None:
    hosts = _Hosts(standby=["http://holder"], holder=[HOLDS])
    _ask("http://standby", hosts, times=3)
    assert hosts.asked == {
        "standby": ["/v1/w?x=1 Bearer secret"],
        "holder": ["/readyz None", *["/v1/w?x=1 Bearer secret"] * 3],
    }


@pytest.mark.parametrize("first", [STANDS_BY, httpx.ConnectError("")])
def test_the_next_address_is_asked_at_once(first: str | httpx.TransportError) -> None:
    hosts = _Hosts(first=[first], holder=[HOLDS])
    logged = _ask("http://first, http://holder/", hosts, times=2, retry_for=AT_ONCE)
    assert [asked.count(CALL) for asked in hosts.asked.values()] == [1, 2]
    assert logged == []


def test_a_take_over_is_waited_for_though_nothing_may_be_repeated() -> None:
    hosts = _Hosts(standby=[STANDS_BY], holder=[STANDS_BY, HOLDS])
    assert len(_ask("http://standby,http://holder", hosts)) == 2
    assert hosts.asked["holder"].count(CALL) == 2


def test_a_redirect_in_a_circle_is_an_unreachable_service() -> None:
    hosts = _Hosts(a=["http://b"], b=["http://a"])
    refused = _refused("http://a", hosts, retry_for=AT_ONCE)
    assert isinstance(refused, ServiceUnreachableError)
    assert "which redirects, too: none of them holds" in str(refused)
    # A target that cannot be used does not keep a client from its other addresses.
    hosts = _Hosts(a=["http://a:0"], b=[HOLDS])
    _ask("http://a,http://b", hosts, retry_for=AT_ONCE)


CALL = "/v1/w?x=1 Bearer secret"
PROBE = "/readyz None"


NONE = "no database (no header Tidegauge-Database: let proxies pass it on; run one version)"


@pytest.mark.parametrize(("named", "said"), [("two", "two"), ("", NONE)])
def test_a_target_that_is_not_this_service_gets_no_token_and_the_own_list_goes_on(
    named: str, said: str
) -> None:
    hosts = _Hosts({"other": named}, standby=["http://other"], other=[HOLDS], holder=[HOLDS])
    _ask("http://standby,http://holder", hosts, times=2, retry_for=AT_ONCE)
    assert hosts.asked == {"standby": [CALL], "other": [PROBE], "holder": [PROBE, CALL, CALL]}
    refused = _refused("http://standby", hosts, retry_for=AT_ONCE)
    assert isinstance(refused, ServiceUnreachableError)
    assert "http://standby stands by for http://other (its --advertise-url)" in str(refused)
    assert f"its /readyz names {said}, and the redirect one" in str(refused)


@pytest.mark.parametrize("holder", ["one", ""])
def test_a_redirect_that_names_no_database_is_not_followed(holder: str) -> None:
    named = {"standby": "", "holder": holder}
    hosts = _Hosts(named, standby=["http://holder"], holder=[HOLDS])
    said = f"names {holder or NONE}, and the redirect {NONE}"
    assert said in str(_refused("http://standby", hosts, retry_for=AT_ONCE))
    assert hosts.asked["holder"] == [PROBE]
    _ask("http://standby,http://holder", hosts, retry_for=AT_ONCE)


@pytest.mark.parametrize("lost", [httpx.ReadError(""), httpx.ConnectError("")])
def test_a_target_proves_itself_anew_once_a_connection_to_it_broke(
    lost: httpx.TransportError,
) -> None:
    hosts = _Hosts(standby=["http://holder"], holder=[HOLDS, HOLDS, lost, HOLDS])
    _ask("http://standby", hosts, times=3, retry=True)
    assert hosts.asked["holder"] == [PROBE, CALL, CALL, CALL, PROBE, CALL]


@pytest.mark.anyio
@pytest.mark.parametrize("standby", ["again", "away", "to the other"])
async def test_a_list_that_leads_to_two_services_is_refused_with_both_named(
    standby: str,
) -> None:
    lost = httpx.ConnectError("")
    turns: list[Any] = ["http://b" if standby == "to the other" else "http://gone"]
    turns += [lost] * (standby == "away")
    hosts = _Hosts({"b": "two"}, a=turns, b=[HOLDS], gone=[lost])
    transport = Transport("http://a,http://b", token="secret", transport=hosts)
    for _ in range(2):
        with pytest.raises(TwoServicesError, match="http://a and http://b lead to"):
            await transport.request("GET", "/v1/w", answer=_Answer, retry=True)
    await transport.aclose()
    assert set(hosts.asked["b"]) == {PROBE}


def test_the_second_service_of_a_list_is_noticed_though_the_first_one_answered_and_is_gone() -> (
    None
):
    hosts = _Hosts({"b": "two"}, a=[HOLDS, HOLDS, httpx.ConnectError("")], b=[HOLDS])
    with pytest.raises(TwoServicesError, match="http://a and http://b lead to"):
        _ask("http://a,http://b", hosts, times=3)
    assert hosts.asked == {"a": [CALL, PROBE, CALL, CALL, PROBE], "b": [PROBE]}


@pytest.mark.anyio
async def test_a_database_that_was_replaced_makes_no_two_services() -> None:
    lost = httpx.ConnectError("")
    hosts = _Hosts(a=["http://gone"], b=[STANDS_BY], gone=[HOLDS, lost])
    transport = Transport("http://a,http://b", token="secret", transport=hosts)
    call = partial(transport.request, "GET", "/v1/w", answer=_Answer, retry=True)
    await call()
    hosts.turns |= {"b": [STANDS_BY, HOLDS]}
    await call()
    hosts.databases = dict.fromkeys("ab", "two")
    await call()
    # Nor does one that the other controller has not come back to.
    hosts.databases = dict.fromkeys("ab", "three")
    hosts.turns |= {"a": [lost], "b": [STANDS_BY, HOLDS]}
    await call()
    await transport.aclose()


@asynccontextmanager
async def _redirected(
    *databases: str, stays: bool = True, retry_for: timedelta = AT_ONCE
) -> AsyncIterator[tuple["_Listener", Callable[[], Awaitable[object]]]]:
    """Start a standby that sends callers to a holder; yield the holder, and a call to the standby."""
    async with _Listener() as holder, _Listener() as standby:
        holder.databases, holder.stays = list(databases), stays
        standby.more = f"location: {holder.url}/v1/w?x=1\r\n"
        transport = Transport(standby.url, token="secret", retry_for=retry_for)
        yield (
            holder,
            partial(
                transport.request, "GET", "/v1/w", answer=_Answer, retry=True, params={"x": 1}
            ),
        )
        await transport.aclose()


@pytest.mark.anyio
async def test_who_listens_at_a_proved_address_later_gets_no_token() -> None:
    async with _redirected("one") as (holder, call):
        await call()
        await call()
        await holder.end_connections()
        await call()
        holder.databases = ["two"]
        await holder.end_connections()
        with pytest.raises(ServiceUnreachableError, match="names two, and the redirect one"):
            await call()
        assert holder.heard == [PROBE, CALL, CALL, PROBE, CALL, PROBE, PROBE]


@pytest.mark.anyio
async def test_a_token_goes_only_over_a_connection_that_proved_itself() -> None:
    """A balancer leads each connection elsewhere."""
    databases = ["one", "two"] * 20
    async with _redirected(*databases, retry_for=timedelta(minutes=1)) as (balancer, call):
        for _ in range(2):
            await asyncio.gather(*(call() for _ in range(4)))
        assert balancer.trusted == {"one"}


@pytest.mark.anyio
async def test_a_target_that_closes_after_each_answer_gets_no_token_and_is_named() -> None:
    async with _redirected("one", stays=False) as (closes, call):
        said = f"{closes.url} (its --advertise-url), which cannot be used: it closed the conn"
        with pytest.raises(ServiceUnreachableError, match=re.escape(said)):
            await call()
        assert set(closes.heard) == {PROBE}


@pytest.mark.anyio
async def test_a_call_whose_proved_connection_another_call_took_asks_over_a_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ask = Transport._database_of
    is_proved, goes_on = asyncio.Event(), asyncio.Event()

    async def ask_and_pause(self: Transport, *given: str) -> str:
        database = await ask(self, *given)
        if not is_proved.is_set():
            is_proved.set()
            await goes_on.wait()
        return database

    monkeypatch.setattr(Transport, "_database_of", ask_and_pause)
    async with _redirected("one") as (holder, call):
        first = asyncio.ensure_future(call())
        await is_proved.wait()
        holder.answers.clear()
        second = asyncio.ensure_future(call())
        await until(lambda: len(holder.heard) == 2)
        goes_on.set()
        await until(lambda: len(holder.heard) == 3 or first.done())
        holder.answers.set()
        await asyncio.gather(first, second)
        assert holder.heard[:3] == [PROBE, PROBE, PROBE]


class _Listener:
    """Answers every request alike, over connections that stay: with a redirect, or as a holder."""

    def __init__(self) -> None:
        self.databases = ["one"]
        """What connections name in turn, of which the last goes on."""
        self.more = ""
        self.stays = True
        self.answers = asyncio.Event()
        self.answers.set()
        self.heard: list[str] = []
        self.trusted: set[str] = set()
        """The databases whose connections got a token."""
        self._open: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._talk, "127.0.0.1", 0, limit=2**20)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.end_connections()
        self._server.close()

    async def end_connections(self) -> None:
        while self._open:
            writer = self._open.pop()
            writer.close()
            await writer.wait_closed()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.append(writer)
        database, *later = self.databases
        self.databases = later or [database]
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                token = re.search(r"(?i)authorization: (.+)\r", head)
                self.heard.append(f"{head.split()[1]} {token[1] if token else None}")
                self.trusted |= {database} if token else set()
                await self.answers.wait()
                body = '{"watermark": 1}'
                answer = f"HTTP/1.1 {307 if self.more else 200} Well\r\n{self.more}"
                answer += f"tidegauge-database: {database}\r\n"
                answer += "" if self.stays else "connection: close\r\n"
                writer.write(f"{answer}content-length: {len(body)}\r\n\r\n{body}".encode())


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
    with pytest.raises(httpx.ConnectError, match=re.escape(said)):
        target_of(location, asked=asked, path="/v1/w")


def test_a_holder_behind_a_path_is_asked_there() -> None:
    location = "https://tides/b/v1/w?wait_ms=1"
    assert target_of(location, asked="http://a", path="/v1/w") == "https://tides/b"


def test_a_wrong_address_is_reported_sooner_than_a_take_over() -> None:
    limits: dict[str, Any] = {"retry_for": timedelta(seconds=7), "first_contact": AT_ONCE}
    logged: list[str] = []
    hosts = _Hosts(gone=[httpx.ConnectError("")], standby=[STANDS_BY, HOLDS])
    _refused("http://gone", hosts, log=logged.append, **limits)
    assert logged == []
    logged = _ask("http://standby", hosts, **limits)
    assert logged[0].startswith("retrying http://standby for up to 7 s: ")


def test_the_next_address_is_asked_where_a_paused_holder_says_nothing() -> None:
    hosts = _Hosts(paused=[httpx.ReadTimeout("")], holder=[HOLDS])
    _ask("http://paused,http://holder", hosts, retry=True, first_contact=AT_ONCE)
    assert hosts.asked["holder"].count(CALL) == 1
