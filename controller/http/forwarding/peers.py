"""Asking another controller what it holds, on behalf of a caller."""

import logging
import ssl
from functools import partial
from typing import NamedTuple
from urllib.parse import quote

import httpx
from starlette.types import Message, Receive, Scope, Send

from controller.cluster import SharedOwnership
from controller.commit.waiting import Reason, unless, until_hung_up
from controller.http.messages.scopes import method_of
from tidegauge.errors import OutcomeUnknownError

HOP = b"tidegauge-hop"
"""A request with it was passed on once, and is not passed on again."""
NOT_HOLDER = b"tidegauge-not-holder"
"""An answer with it says that nothing was done, since another controller may be the holder."""
ROUTE = "tidegauge.route"
"""In the scope of a request that this controller answers: which route does."""
ASKED_AGAIN = {"GET", "PUT"}
"""Methods of what is asked for again if it moved before anything was done."""

_log = logging.getLogger(__name__)
logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs every request
_LONGEST_ANSWER_S = 60.0
_CONNECT_S = 1.0
_IDLE_S = 2.0
"""Before the other closes a connection, which it does after 5 s: what is sent then is lost."""
_BETWEEN_TWO = frozenset(
    b"connection content-length date host keep-alive origin server transfer-encoding "
    b"upgrade".split()
)
"""Headers about one connection, or of one server, which judges them: they are not passed on."""


class Peer(NamedTuple):
    """Another controller: the fencing token of its lease, and where it is reached."""

    controller: int
    address: str


class PassedOn(NamedTuple):
    """A request as it is passed on; after its body it says that the caller has hung up."""

    scope: Scope
    body: bytes
    receive: Receive

    @property
    def is_safe(self) -> bool:
        """Whether asking twice does no harm."""
        method: str = self.scope["method"]
        return method == "GET"

    def replay(self) -> Receive:
        """Return a `receive` that gives the body, which was read already, and then what comes after."""
        messages = iter([{"type": "http.request", "body": self.body, "more_body": False}])

        async def receive() -> Message:
            return next(messages, None) or await self.receive()

        return receive


class Peers:
    """The way to the other controllers.

    ``trusted`` knows whose certificates are good; without it those of the authorities that all trust
    are. ``transport`` carries requests in place of sockets.
    """

    def __init__(
        self,
        ownership: SharedOwnership,
        *,
        trusted: ssl.SSLContext | None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._ownership = ownership
        self._complaints: dict[Peer, str] = {}
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(_LONGEST_ANSWER_S, connect=_CONNECT_S),
            limits=httpx.Limits(max_connections=None, keepalive_expiry=_IDLE_S),
            trust_env=False,
            verify=True if trusted is None else trusted,
            transport=transport,
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def ask(self, peer: Peer, request: PassedOn, send: Send) -> bool:
        """Pass a request on, and its answer back as it comes.

        False if nothing was done and nothing was sent: ask again. Raises `OutcomeUnknownError` if the
        other controller may have done it, and was lost before it answered.
        """
        response = await self._open(peer, request)
        if response is None:
            return False
        try:
            if NOT_HOLDER.decode() in response.headers:
                return False
            headers = _end_to_end(response.headers.raw)
            if "content-length" in response.headers:
                length = response.headers["content-length"].encode()
                headers.append((b"content-length", length))
            start = {"type": "http.response.start", "status": response.status_code}
            await send({**start, "headers": headers})
            async for part in response.aiter_raw():
                await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            await response.aclose()
        return True

    async def _open(self, peer: Peer, request: PassedOn) -> httpx.Response | None:
        scope = request.scope
        path = scope.get("raw_path") or quote(scope["path"]).encode()
        query = b"?" + scope["query_string"] if scope["query_string"] else b""
        sent = self._client.build_request(
            method_of(scope),
            peer.address,
            headers=[*_end_to_end(scope["headers"]), (HOP, b"1")],
            content=request.body,
            extensions={"target": path + query},  # httpx refuses long ones as a part of the URL
        )
        # A controller that is dead or paused is not waited for; nor is any, where nothing is done, once
        # nobody is there to hear of it.
        reasons: list[Reason] = [partial(self._until_lost, peer.controller)]
        if request.is_safe:
            reasons += [self._until_none_asked, partial(until_hung_up, request.receive)]
        try:
            return await unless(self._client.send(sent, stream=True), *reasons)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            # Logged once for each reason: calls try it many times.
            if self._complaints.get(peer) != (reason := str(error) or type(error).__name__):
                self._complaints[peer] = reason
                _log.warning("%s is not reached: %s", peer.address, reason)
            return None
        # AttributeError: of anyio over uvloop, if the other hangs up right behind the handshake.
        except (httpx.TransportError, AttributeError, _GivenUpError) as error:
            if request.is_safe:
                return None
            raise OutcomeUnknownError(str(error) or type(error).__name__) from error

    async def _until_lost(self, controller: int) -> Exception:
        await self._ownership.until_gone(controller)
        return _GivenUpError(f"controller {controller} lost its lease")

    async def _until_none_asked(self) -> Exception:
        await self._ownership.closing.wait()
        return _GivenUpError("the service is shutting down")


class _GivenUpError(Exception):
    """A controller lost its lease while it was asked, or need not be asked any more."""


def is_passed_on(scope: Scope) -> bool:
    """Return whether another controller passed a request on."""
    return any(name == HOP for name, _ in scope["headers"])


def says_moved(message: Message) -> bool:
    """Return whether an answer that begins so says that another controller is to be asked."""
    return any(name == NOT_HOLDER for name, _ in message.get("headers", ()))


def _end_to_end(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in headers if name.lower() not in _BETWEEN_TWO]
