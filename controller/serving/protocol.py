"""HTTP/1.1 as uvicorn speaks it, with a short cut for heads that came before.

A producer sends the same head over and over: of path, host, type and length of a report only
the length changes. What such a head means is remembered by its other bytes, so that the next
request with it is neither parsed nor given a task of its own. Everything else goes through
uvicorn.
"""

import re
from collections.abc import Iterable
from typing import Any, Protocol, cast

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from controller.serving.heads import BoundedProtocol

_A_GENERATION = 131_072
_LONGEST_HEAD = 2_048
_LENGTH = re.compile(rb"\r\n[Cc]ontent-[Ll]ength: ?(\d{1,9})(?=\r\n|\Z)")
_END = b"\r\n\r\n"
_POST = b"POST "
_Headers = Iterable[tuple[bytes, bytes]]


class Reply(Protocol):
    """Where an answer goes."""

    def succeed(self, body: bytes) -> None:
        """Answer 200 with JSON."""

    def refuse(self, status: int, headers: _Headers, body: bytes) -> None:
        """Answer with an error."""


class RecalledCall(Protocol):
    """What requests with a certain head ask for."""

    @property
    def is_current(self) -> bool:
        """Whether the head still means this."""

    def take(self, body: bytes, reply: Reply) -> None:
        """Begin to answer a request; the reply is called once, now or later."""


class RecallingApp(Protocol):
    """An application that can tell what a head will mean when it comes again."""

    def recall(self, scope: Scope) -> RecalledCall | None:
        """Say what requests like this one ask for; None if that is not worth remembering."""


class KnownHeads:
    """The heads that came before, on any connection.

    Parameters
    ----------
    app
        Knows what they mean.
    longest_body
        In bytes; a head that announces a longer one is not known.
    """

    def __init__(self, app: RecallingApp, *, longest_body: int) -> None:
        self._app = app
        self._longest_body = longest_body
        self._calls: dict[bytes, RecalledCall] = {}
        """By their bytes without the length."""
        self._former: dict[bytes, RecalledCall] = {}
        """The generation before, which is forgotten as a whole, but for who comes again."""
        self._common: _Headers = ()
        self._ok = b""

    def find(self, head: bytes, length: int) -> RecalledCall | None:
        """Look up what a head means, if it announces a body of this length."""
        key = _without_length(head, length)
        if key is None or length > self._longest_body:
            return None
        call = self._calls.get(key)
        if call is None:
            call = self._former.pop(key, None)
            if call is None:
                return None
            self._remember(key, call)
        if call.is_current:
            return call
        del self._calls[key]
        return None

    def learn(self, head: bytes, length: int, scope: Scope) -> None:
        """Remember what a head means that was just parsed, if that is worth it."""
        key = _without_length(head, length)
        if key is None or len(head) > _LONGEST_HEAD:
            return
        call = self._app.recall(scope)
        if call is not None:
            self._remember(key, call)

    def ok(self, common: _Headers) -> bytes:
        """Write the head of a success up to its length; ``common`` headers go into all."""
        if common is not self._common:
            self._common = common
            headers = [*common, (b"content-type", b"application/json")]
            self._ok = STATUS_LINE[200] + _lines(headers) + b"content-length: "
        return self._ok

    def _remember(self, key: bytes, call: RecalledCall) -> None:
        if len(self._calls) >= _A_GENERATION:
            self._former, self._calls = self._calls, {}
        self._calls[key] = call


def _without_length(head: bytes, length: int) -> bytes | None:
    """Cut the length out of a head that announces it; None if it announces none, or another."""
    announced = _LENGTH.search(head)
    if announced is None or int(announced[1]) != length:
        return None
    return head[: announced.start(1)] + head[announced.end(1) :]


class RecallingProtocol(BoundedProtocol):
    """One connection.

    Parameters
    ----------
    heads
        Those that came before.
    given
        The bound of heads, and what uvicorn gives.
    """

    def __init__(self, heads: KnownHeads, **given: Any) -> None:  # noqa: ANN401 (mostly uvicorn's)
        super().__init__(**given)
        self._heads = heads
        self._inside = False
        """Whether the parser waits for the rest of a message."""
        self._answering = False
        """Whether a recalled call has not been answered yet."""
        self._held = b""
        """What came meanwhile."""
        self._closing = False
        self._last_used = 0.0

    def data_received(self, data: bytes) -> None:
        """Take the short cut if the whole request is here and its head is known."""
        if self._answering:
            self._held += data
            self.transport.pause_reading()
            return
        is_whole = not self._inside and data.startswith(_POST) and self._is_idle()
        if not is_whole:
            super().data_received(data)
            return
        head, _, body = data.partition(_END)
        call = self._heads.find(head, len(body))
        if call is None:
            super().data_received(data)
            self._learn(head, body)
            return
        self._answering = True
        call.take(body, self)

    def on_message_begin(self) -> None:
        """Begin a message."""
        self._inside = True
        super().on_message_begin()

    def on_message_complete(self) -> None:
        """End a message."""
        self._inside = False
        super().on_message_complete()

    def succeed(self, body: bytes) -> None:
        """Answer a recalled call."""
        head = self._heads.ok(self.server_state.default_headers)
        self._answer(b"%s%d\r\n\r\n%s" % (head, len(body), body))

    def refuse(self, status: int, headers: _Headers, body: bytes) -> None:
        """Answer a recalled call with an error."""
        head = STATUS_LINE[status] + _lines([*self.server_state.default_headers, *headers])
        self._answer(head + b"\r\n" + body)

    def shutdown(self) -> None:
        """Close after the answer that is due."""
        if self._answering:
            self._closing = True
        else:
            super().shutdown()

    def timeout_keep_alive_handler(self) -> None:
        """Close, unless short cuts were taken meanwhile: they leave the timer alone."""
        idle_s = 0.0 if self._answering else self.loop.time() - self._last_used
        if idle_s < self.timeout_keep_alive:
            self._watch_idle(self.timeout_keep_alive - idle_s)
        else:
            super().timeout_keep_alive_handler()

    def _learn(self, head: bytes, body: bytes) -> None:
        cycle = self.cycle
        if (
            self._inside
            or cycle is None
            or cycle.more_body
            or not cycle.keep_alive
            or cycle.waiting_for_100_continue
            or cycle.body != body
        ):
            return
        self._heads.learn(head, len(body), cast("Scope", self.scope))

    def _answer(self, data: bytes) -> None:
        self._answering = False
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.transport.write_now(data)  # type: ignore[attr-defined]
        if self._closing:
            self.transport.close()
            return
        self._last_used = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._watch_idle(self.timeout_keep_alive)
        if self._held:
            held, self._held = self._held, b""
            self.transport.resume_reading()
            self.data_received(held)

    def _watch_idle(self, delay_s: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(
            delay_s, self.timeout_keep_alive_handler
        )


def _lines(headers: _Headers) -> bytes:
    return b"".join(b"%s: %s\r\n" % header for header in headers)
