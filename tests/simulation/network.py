"""Requests between nodes, below every httpx client: the application is called in process.

What happens to a request, by seed:

================  =========================================================================
fault             what happens
================  =========================================================================
``lost``          it never arrives, and nothing is said: its caller waits until it gives up
``late``          its caller hears that the connection broke, and it arrives seconds later
``cut``           the connection breaks while it is under way, or being answered
``unheard``       it is carried out, and the answer is lost without a word
``doubled``       it arrives twice, as through a proxy that asks again
``slow``          it takes its time, either way
================  =========================================================================

A node may also be cut off from another (`Network.cut_off`): then nothing arrives, and nothing is said.
When the faults are over, whoever waits in vain is told that the connection broke.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, Protocol
from urllib.parse import unquote

import httpx
from starlette.types import ASGIApp, Message, Scope

from tests.simulation.choices import Choices
from tests.simulation.kernel import Node, SimulatedLoop, current_node

_FOREVER_S = 3_600.0
_FLIGHT_S = 0.0002  # of a part of an answer
_OF_STANDBYS = {307, 502, 503}
_PROBES = {"/", "/healthz", "/readyz", "/metrics"}


class Place(Protocol):
    """Where an application is reached."""

    node: Node
    app: ASGIApp
    is_up: bool
    is_entitled: bool
    """Whether it holds the database, as that says."""


class Network(httpx.AsyncBaseTransport):
    """Carries requests to the places that are known by the names of their hosts."""

    def __init__(self, loop: SimulatedLoop, choices: Choices) -> None:
        self.loop = loop
        self.choices = choices
        self.places: dict[str, Place] = {}
        self.intensity = 0.0
        """How often something happens to a request: 1 is seldom."""
        self.usual = 1.0
        """Its intensity in this run, but for the rough times and the calm."""
        self.requests = 0
        self.cut_off: set[tuple[str, str]] = set()
        """Pairs of host and client, by their names, of which neither reaches the other."""
        self._open: dict[_Exchange, None] = {}
        self._answering: dict[asyncio.Task[None], Node] = {}
        self.heard: Callable[[str, float], None] = lambda _path, _arrived_s: None
        """Called with each POST that was done, and when it had arrived."""
        self.troubles: list[str] = []
        self.raised: list[BaseException] = []
        """What applications raised, which a server would answer with 500."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests += 1
        caller, host = current_node(), request.url.host
        body = await request.aread()
        limits = request.extensions.get("timeout", {})
        await asyncio.sleep(self._delay())
        if (host, caller.place) in self.cut_off:
            await self._await_end(limits.get("connect") or _FOREVER_S)
            raise httpx.ConnectTimeout("cut off", request=request)
        place = self.places.get(host)
        if place is None or not place.is_up:
            raise httpx.ConnectError("nobody listens there", request=request)
        exchange = _Exchange(self, place, request, body, caller)
        patience_s = limits.get("read") or _FOREVER_S
        try:
            await self._send(exchange, patience_s)
            async with asyncio.timeout(patience_s):
                status, headers = await exchange.head
        except TimeoutError:
            exchange.hang_up()
            raise httpx.ReadTimeout("no answer", request=request) from None
        except asyncio.CancelledError:
            exchange.hang_up()
            raise
        return httpx.Response(status, headers=headers, stream=_Body(exchange), request=request)

    async def _send(self, exchange: "_Exchange", patience_s: float) -> None:
        choices, much = self.choices, self.intensity
        if choices.strikes("lost", 0.004 * much):
            await self._await_end(patience_s)
            raise httpx.ReadTimeout("lost", request=exchange.request)
        if choices.strikes("late", 0.006 * much):
            self._later(choices.between("lateness", 0.05, 4), exchange.arrive)
            raise httpx.ReadError("broken", request=exchange.request)
        if choices.strikes("doubled", 0.01 * much) and _may_repeat(exchange.request):
            self._later(choices.between("doubling", 0.0, 0.5), exchange.copy().arrive)
        self._open[exchange] = None
        if choices.strikes("cut", 0.012 * much):
            self._later(choices.of("cutting").expovariate(1 / 0.004), exchange.break_off)
        exchange.is_unheard = choices.strikes("unheard", 0.004 * much)
        if choices.strikes("slow", 0.02 * much):
            await asyncio.sleep(choices.between("slow request", 0.01, 0.5))
        exchange.arrive()

    def close_all(self, node: Node) -> None:
        for exchange in list(self._open):
            if exchange.place_node is node:
                exchange.after(exchange.break_off)  # behind what it had sent
            elif exchange.caller is node:
                exchange.hang_up()

    def heal(self) -> None:
        self.cut_off.clear()
        for exchange in list(self._open):
            if exchange.is_unheard:
                exchange.break_off()

    def calls(self, node: Node) -> list[asyncio.Task[None]]:
        """Return the calls that a controller answers, whether anybody still waits for them or not."""
        return [call for call, place in self._answering.items() if place is node]

    def note_call(self, call: asyncio.Task[None], node: Node) -> None:
        self._answering[call] = node
        call.add_done_callback(self._answering.pop, context=self.loop.world.context)

    def forget(self, exchange: "_Exchange") -> None:
        self._open.pop(exchange, None)

    def _later(self, delay_s: float, work: Callable[[], None]) -> None:
        """Do something whatever becomes of the nodes: it is under way."""
        self.loop.call_later(delay_s, work, context=self.loop.world.context)

    async def _await_end(self, patience_s: float) -> None:
        ends = self.loop.time() + patience_s
        while self.loop.time() < ends and not self.choices.are_faults_over:
            await asyncio.sleep(min(0.5, ends - self.loop.time()))

    def _delay(self) -> float:
        if self.choices.strikes("slow", 0.003 * self.intensity):
            return self.choices.between("slowness of the network", 0.005, 0.3)
        return self.choices.of("network").expovariate(3_000)


class _Exchange:
    """A request, and its answer as it comes."""

    def __init__(
        self, network: Network, place: Place, request: httpx.Request, body: bytes, caller: Node
    ) -> None:
        self.request = request
        self._network = network
        self._loop = network.loop
        self._place = place
        self.place_node = place.node
        self.caller = caller
        self._scope = _scope(request)
        self._content = body
        self._body: bytes | None = body
        self.is_unheard = False
        self.head: asyncio.Future[tuple[int, Any]] = self._loop.create_future()
        self.head.add_done_callback(lambda head: head.cancelled() or head.exception())
        self.parts: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self._hung_up = asyncio.Event()
        self._status = 0
        self._is_entitled = True
        self._arrived_s = 0.0
        self.is_done = False
        self._behind_s = 0.0

    def copy(self) -> "_Exchange":
        """Make another one of the same request, whose answer nobody hears."""
        return _Exchange(self._network, self._place, self.request, self._content, self.caller)

    def arrive(self) -> None:
        if self._place.node is not self.place_node or not self._place.is_up:
            self.break_off()
            return
        scope = self._scope
        self._is_entitled, self._arrived_s = self._place.is_entitled, self._loop.time()
        self._loop.trace("request", f"{self.caller} {scope['method']} {scope['path']}")
        call = self.place_node.spawn(self._answer(), name="answering")
        self._network.note_call(call, self.place_node)

    def break_off(self) -> None:
        error = httpx.ReadError("the connection broke")
        if not self.head.done():
            self.head.set_exception(error)
        self.parts.put_nowait(error)
        self.hang_up()

    def hang_up(self) -> None:
        self._network.forget(self)
        self._loop.call_later(0.0005, self._hung_up.set)

    async def _answer(self) -> None:
        try:
            await self._place.app(self._scope, self._receive, self._send)
        except Exception as error:  # noqa: BLE001 (the judge hears of it)
            self._network.raised.append(error)
            self._loop.trace("raised", repr(error))
            if not self._status:
                start = {"type": "http.response.start", "status": 500, "headers": []}
                await self._send(start)
                await self._send({"type": "http.response.body", "body": b""})
        if not self.is_done and not self._hung_up.is_set():
            self.break_off()

    async def _receive(self) -> Message:
        body, self._body = self._body, None
        if body is not None:
            return {"type": "http.request", "body": body, "more_body": False}
        await self._hung_up.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if current_node().is_dead or self._hung_up.is_set():
            return
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._judge_answer()
            self._loop.trace("answer", f"{self.caller} {self._scope['path']} {self._status}")
            if not self.is_unheard:
                self.after(partial(self._begin, self._status, message.get("headers", [])))
            return
        more, part = message.get("more_body", False), message.get("body", b"")
        if not self.is_unheard:
            self.after(lambda: self._pass(part, more=more))
        self.is_done = not more

    def _judge_answer(self) -> None:
        """A controller that does not hold the database answers nothing but probes, and where to ask."""
        method, path = self._scope["method"], self._scope["path"]
        if not self._is_entitled and self._status not in _OF_STANDBYS and path not in _PROBES:
            self._network.troubles.append(
                f"stands by: {self.place_node} answered {method} {path} with {self._status}"
            )
        if method == "POST" and self._status < 300:
            self._network.heard(path, self._arrived_s)

    def _begin(self, status: int, headers: Any) -> None:
        if not self.head.done():
            self.head.set_result((status, headers))

    def _pass(self, part: bytes, *, more: bool) -> None:
        if part:
            self.parts.put_nowait(part)
        if not more:
            self.parts.put_nowait(None)

    def after(self, work: Callable[[], object]) -> None:
        """Do something a moment later, in the order in which it was asked for."""
        self._behind_s = max(self._behind_s + 1e-7, self._loop.time() + _FLIGHT_S)
        self._loop.call_at(self._behind_s, work, context=self._loop.world.context)


class _Body(httpx.AsyncByteStream):
    """The body of an answer."""

    def __init__(self, exchange: _Exchange) -> None:
        self._exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            part = await self._exchange.parts.get()
            if part is None:
                self._exchange.hang_up()
                return
            if isinstance(part, Exception):
                raise part
            yield part

    async def aclose(self) -> None:
        self._exchange.hang_up()


def _may_repeat(request: httpx.Request) -> bool:
    """Whether a proxy may: not what would be appended once more."""
    is_ndjson = "ndjson" in request.headers.get("content-type", "")
    return not is_ndjson or "idempotency-key" in request.headers


def _scope(request: httpx.Request) -> Scope:
    target = request.extensions.get("target", request.url.raw_path)
    path, _, query = target.partition(b"?")
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": unquote(path.decode()),
        "raw_path": path,
        "query_string": query,
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "client": ("127.0.0.1", 1),
        "server": (request.url.host, 80),
        "root_path": "",
        "state": {},
    }
