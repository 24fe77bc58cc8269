"""What a controller lost while a call waited for news there is asked for again, if that is safe."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from controller.http.forwarding.one import Forwarding
from controller.http.forwarding.peers import HOP, NOT_HOLDER
from controller.http.timing import Timing
from controller.metrics.counters import Metrics

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
        self.is_certain = True

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
        metrics = Metrics()
        self.statuses: list[int] = []
        for times in (metrics.long_poll_times, metrics.request_times):
            times.observe = self._observe  # type: ignore[method-assign]
        self.timing = Timing(metrics)

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

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await counts.timing.call(holder.answer, scope, receive, send)

    async def scene() -> None:
        loop: Any = asyncio.get_running_loop()
        loop.time = lambda: holder.now_s
        service: Any = SimpleNamespace(
            registry=holder, groups=holder, settings=SimpleNamespace(max_body_bytes=1)
        )
        whole: Any = Forwarding(answer, service, holder, SimpleNamespace())  # type: ignore[arg-type]
        scope = {
            "method": method,
            "path": "/v1/streams/tests/one/marks",
            "headers": [(HOP, b"1")] if hop else [],
            "query_string": query,
        }
        await counts.timing.call_elsewhere(whole, scope, receive, send)

    asyncio.run(scene())
    return sent


def test_it_waits_for_the_rest_of_its_time_only() -> None:
    holder = _Holder(lost_after_s=[10.0, 25.0])
    query = b"after=7&wait_ms=30000&stream_id=x"
    assert _ask(holder, _Counts(), query=query) == [200]
    assert holder.asked == [
        query,
        b"after=7&wait_ms=19900&stream_id=x",
        b"after=7&wait_ms=0&stream_id=x",
    ]


@pytest.mark.parametrize("query", [b"", b"wait_ms=-1", b"wait_ms=1e3", b"no_wait_ms=10000"])
def test_what_does_not_wait_is_asked_as_it_was(query: bytes) -> None:
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


def test_however_many_digits_it_waits_for() -> None:
    holder = _Holder(lost_after_s=[10.0])
    assert _ask(holder, _Counts(), query=b"wait_ms=0030000") == [200]
    assert holder.asked == [b"wait_ms=0030000", b"wait_ms=19900"]
