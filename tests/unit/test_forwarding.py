"""Calls that are passed on to the holder of a stream, asked again there, cut off, or lost on the way."""

import asyncio
import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.types import Message, Receive, Scope, Send

from controller.access.callers import Caller, Role
from controller.cluster import SharedOwnership
from controller.cluster.membership import Membership
from controller.http.forwarding.one import Forwarding, KnownHolders
from controller.http.forwarding.peers import HOP, NOT_HOLDER, Peer
from controller.http.messages.scopes import log_lost
from controller.http.timing import Timing
from controller.metrics.counters import Metrics
from controller.schema import reader_groups, streams
from tidegauge.names import StreamName

NAME = StreamName("tests", "one")
PEER = Peer(7, "http://seven")


@pytest.fixture
def membership() -> Any:
    return SimpleNamespace(notices=3)


@pytest.fixture
def known(membership: Any) -> KnownHolders:
    holders = KnownHolders(membership)
    holders.remember(streams, NAME, PEER, seen=3)
    return holders


def test_a_holder_is_known_once_it_was_looked_up(known: KnownHolders) -> None:
    assert known.find(streams, NAME) == PEER
    assert known.find(reader_groups, NAME) is None


def test_news_make_all_of_them_unknown(known: KnownHolders, membership: Any) -> None:
    membership.notices += 1
    assert known.find(streams, NAME) is None


def test_what_was_looked_up_before_there_was_news_is_not_remembered(
    known: KnownHolders, membership: Any
) -> None:
    membership.notices += 1
    assert known.find(streams, NAME) is None
    known.remember(streams, NAME, PEER, seen=3)
    assert known.find(streams, NAME) is None


def test_what_is_not_there_any_more_is_dropped(known: KnownHolders) -> None:
    known.drop(streams, NAME)
    assert known.find(streams, NAME) is None


def test_a_controller_that_has_left_the_others_waits_on_for_one_that_it_asked() -> None:
    async def scene() -> None:
        membership = Membership(cast("Any", SimpleNamespace()), address="", lease_ms=1_000)
        registry = SimpleNamespace(clocks=SimpleNamespace(listening=None))
        parts: list[Any] = [membership, registry, None, None, None]
        ownership = SharedOwnership(*parts)
        ownership.addresses[7] = "http://seven"
        await membership.leave()
        waiting = asyncio.ensure_future(ownership.until_gone(7))
        await asyncio.sleep(0)  # a wait that is none would never return from here
        ownership.addresses.clear()
        await waiting

    asyncio.run(scene())


PATIENCE_MS = 4_000
START = {"type": "http.response.start", "headers": []}
BODY = {"type": "http.response.body", "body": b""}
MOVED = {**START, "status": 503, "headers": [(NOT_HOLDER, b"1")]}


class _Holder:
    """Holds a stream, and loses it some time after it was asked, once or always; then gets it back."""

    def __init__(self, *, lost_after_s: list[float]) -> None:
        self.asked: list[bytes] = []
        self.now_s = 0.0
        self._lost_after_s = lost_after_s
        self.relocations = SimpleNamespace(end=lambda _name: None)
        self.membership = SimpleNamespace(
            timeout_ms=PATIENCE_MS, notices=0, await_news=self._await_news
        )
        self.closing = asyncio.Event()
        self.lease = SimpleNamespace(is_certain=True)
        self.registry = self.groups = self

    def find(self, _name: object) -> bool:
        return True

    async def _await_news(self, _seen: int, *, wait_ms: int) -> None:
        self.now_s += wait_ms / 1_000

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        self.asked.append(scope["query_string"])
        if self._lost_after_s:
            self.now_s += self._lost_after_s.pop(0)
            await send(MOVED)
        else:
            await send(START | {"status": 200})
        await send(BODY)


class _Counts:
    """Counts answers by status."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.statuses: list[int] = []
        for times in (self.metrics.long_poll_times, self.metrics.request_times):
            times.observe = self._observe  # type: ignore[method-assign]

    def _observe(self, route: str, status: int, seconds: float) -> None:  # noqa: ARG002 (what it is told)
        self.statuses.append(status)


def _ask(
    holder: _Holder,
    counts: _Counts,
    *,
    query: bytes = b"",
    method: str = "GET",
    hop: bool = False,
) -> list[int]:
    """Ask; tell the statuses of all that was sent."""
    sent: list[int] = []

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            sent.append(message["status"])

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def scene() -> None:
        loop: Any = asyncio.get_running_loop()
        loop.time = lambda: holder.now_s
        whole: Any = Forwarding(holder.answer, holder, SimpleNamespace(), max_body_bytes=1)  # type: ignore[arg-type]
        scope = {
            "method": method,
            "path": "/v1/streams/tests/one/marks",
            "headers": [(HOP, b"1")] if hop else [],
            "query_string": query,
        }
        await Timing(whole, counts.metrics)(scope, receive, send)

    asyncio.run(scene())
    return sent


def test_a_long_poll_that_is_asked_again_waits_for_the_rest_of_its_time_only() -> None:
    holder = _Holder(lost_after_s=[10.0, 25.0])
    query = b"after=7&wait_ms=30000&stream_id=x"
    assert _ask(holder, _Counts(), query=query) == [200]
    assert holder.asked == [
        query,
        b"after=7&wait_ms=19900&stream_id=x",
        b"after=7&wait_ms=0&stream_id=x",
    ]


@pytest.mark.parametrize("query", [b"", b"wait_ms=-1", b"wait_ms=1e3", b"no_wait_ms=10000"])
def test_what_does_not_wait_is_asked_again_as_it_was(query: bytes) -> None:
    holder = _Holder(lost_after_s=[0.0])
    assert _ask(holder, _Counts(), query=query) == [200]
    assert holder.asked == [query, query]


def test_who_is_asked_in_vain_for_too_long_after_the_wait_is_told_so() -> None:
    holder = _Holder(lost_after_s=[0.0] * 1_000)
    assert _ask(holder, _Counts(), query=b"wait_ms=3000") == [503]
    assert 3 + 2 * PATIENCE_MS / 1_000 < holder.now_s < 3.2 + 2 * PATIENCE_MS / 1_000


def test_only_what_is_answered_is_counted() -> None:
    counts = _Counts()
    assert _ask(_Holder(lost_after_s=[1.0, 1.0]), counts, query=b"wait_ms=9000") == [200]
    assert counts.statuses == [200]


@pytest.mark.parametrize(("method", "hop"), [("POST", False), ("GET", True)])
def test_what_may_not_be_repeated_or_was_passed_on_is_asked_once(
    method: str, *, hop: bool
) -> None:
    holder = _Holder(lost_after_s=[0.0])
    assert _ask(holder, _Counts(), method=method, hop=hop) == [503]
    assert len(holder.asked) == 1


def test_what_a_controller_is_told_that_asks_another_one_is_not_counted() -> None:
    counts = _Counts()
    assert _ask(_Holder(lost_after_s=[1.0]), counts, hop=True) == [503]
    assert counts.statuses == []


def test_the_rest_of_its_time_is_right_however_many_digits_say_it() -> None:
    holder = _Holder(lost_after_s=[10.0])
    assert _ask(holder, _Counts(), query=b"wait_ms=0030000") == [200]
    assert holder.asked == [b"wait_ms=0030000", b"wait_ms=19900"]


ALICE = Caller("alice", {"flights": frozenset({Role.OPERATE})})
BOB = Caller("bob", {"flights": frozenset({Role.READ, Role.WRITE})})
STREAM = "/v1/streams/flights/one"
GROUP = "/v1/reader-groups/flights/one"


def _logged(caller: Caller, method: str, path: str, log: pytest.LogCaptureFixture) -> list[Any]:
    with log.at_level(logging.INFO):
        log_lost({"type": "http", "method": method, "path": path, "user": caller})
    return [vars(record) for record in log.records]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", STREAM),
        ("PATCH", STREAM),
        ("DELETE", STREAM),
        ("POST", f"{STREAM}/seal"),
        ("POST", f"{STREAM}/writers/w/expire"),
        ("DELETE", GROUP),
    ],
)
def test_what_an_operator_may_have_done_is_logged(
    method: str, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    (line,) = _logged(ALICE, method, path, caplog)
    said = [line[name] for name in ("msg", "caller", "method", "path", "status")]
    assert said == ["operator call", "alice", method, path, 502]


@pytest.mark.parametrize(
    ("caller", "method", "path"),
    [
        (BOB, "DELETE", STREAM),
        (ALICE, "DELETE", "/v1/streams/rides/one"),
        (ALICE, "POST", f"{STREAM}/writers/w/note-time"),
        (ALICE, "PUT", GROUP),
        (ALICE, "DELETE", f"{GROUP}/readers/r"),
    ],
)
def test_what_only_others_may_do_or_somebody_may_not_is_not_logged(
    caller: Caller, method: str, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert _logged(caller, method, path, caplog) == []


def test_who_was_refused_without_a_name_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        log_lost({"type": "http", "method": "DELETE", "path": STREAM})
    assert caplog.records == []


OPENING: Message = {"type": "http.response.start", "status": 200, "headers": []}
REST: Message = {"type": "http.response.body", "body": b"{}"}
SCOPE = {"type": "http", "path": "/v1/note-times", "query_string": b""}


class _Answering:
    """Sends some of an answer, and hangs."""

    def __init__(self, *messages: Message) -> None:
        self._messages = messages
        self.hangs = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 (what every application takes)
        for message in self._messages:
            await send(message)
        self.hangs.set()
        await asyncio.Event().wait()


def _cut_off(*messages: Message, method: str = "POST") -> list[Message]:
    """Let a call hang after it sent some of an answer, cut it off, and return all that was sent."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError

    async def scene() -> None:
        app = _Answering(*messages)
        call = Timing(app, Metrics())(SCOPE | {"method": method}, receive, send)
        task = asyncio.create_task(call)
        await app.hangs.wait()
        task.cancel()
        await task

    asyncio.run(scene())
    return sent


@pytest.mark.parametrize(("method", "status"), [("POST", 502), ("GET", 503)])
def test_who_waits_for_an_answer_is_told_that_there_will_be_none(
    method: str, status: int
) -> None:
    start, _body = _cut_off(method=method)
    assert start["status"] == status


def test_an_answer_that_has_begun_is_not_followed_by_another() -> None:
    assert _cut_off(OPENING) == [OPENING]
    assert _cut_off(OPENING, REST) == [OPENING, REST]
