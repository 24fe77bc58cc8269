"""HTTP/1.1 below the framework: bounds heads in size and time, and declines offers of upgrades.

Without it, a service that is reached directly fails in four ways that no option of uvicorn prevents:

- 800 unfinished heads of 1 MB take 914 MB for ever (`docs/benchmarks.md`). ``limit_concurrency`` does not
  count them, the bound of h11 is one of each head alone, and httptools has none.
- 10 000 silent connections stay for ever: ``timeout_keep_alive`` begins after a first answer. With a
  ``limit_concurrency`` that they exceed, everybody else gets 503.
- A malformed head is answered in plain text, without a code.
- A head that offers HTTP/2 is taken for the last request of its connection.

`deploy/haproxy.cfg` prevents the first two, for what comes through it. The names in uvicorn and httptools
that this module depends on are listed in the test of the upper bounds of the dependencies.
"""

import asyncio
from typing import Any

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from controller.configuration import ServeSettings
from controller.http.messages.problems import write_problem
from tidegauge import errors

_LONGEST_PARSED = 65_535
"""Longer addresses are too long for the parser of addresses."""
_HEADER_BYTES = 150
"""Memory of a short header: two bytes objects and a tuple."""
_LINGER_S = 2.0
"""Time for an answer to reach a peer that is still sending: a few round trips."""
_MOST_DROPPED_BYTES = 33_554_432
"""Most of a body that a peer may send after its answer: some send all of it before they read."""


class HeadLimits:
    """Limits of connections before a request is complete enough to check its token.

    The memory of all unfinished heads together is bounded; beyond the bound, the oldest is refused.
    A head is usually complete within milliseconds, and most come in one piece and are never counted.
    So the oldest belong to peers that hold them back.
    """

    def __init__(self, settings: ServeSettings) -> None:
        self.max_bytes = settings.max_head_bytes
        """Of the first line and the headers of one request."""
        self.timeout_s = settings.head_timeout_ms / 1_000
        """Until the first byte of a connection, and from the first byte of a head to its last."""
        self._max_unfinished_bytes = settings.max_unfinished_head_bytes
        self._sizes: dict[BoundedProtocol, int] = {}
        """In the order in which they began."""
        self._total = 0

    def count(self, connection: "BoundedProtocol", size: int) -> None:
        """Count a head, or what it has grown to."""
        self._total += size - self._sizes.get(connection, 0)
        self._sizes[connection] = size
        while self._total > self._max_unfinished_bytes:
            oldest = next(iter(self._sizes))
            self.forget(oldest)
            reason = (
                f"unfinished heads take more than {self._max_unfinished_bytes} bytes "
                "(max_unfinished_head_bytes), and this one was the oldest"
            )
            oldest.refuse(errors.UnavailableError(reason))

    def forget(self, connection: "BoundedProtocol") -> None:
        """Stop counting a head: it is complete, or never will be."""
        self._total -= self._sizes.pop(connection, 0)


class BoundedProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, limits: HeadLimits, **given: Any) -> None:  # noqa: ANN401 (uvicorn's)
        super().__init__(**given)
        self.parser = _DecliningParser(self)
        self._limits = limits
        self._head_bytes: int | None = None
        """Bytes received of an unfinished head; None between heads."""
        self._come_bytes = 0
        """Bytes received since that head began, with those being parsed."""
        self._overdue: asyncio.TimerHandle | None = None
        """Runs while a head is awaited, except while uvicorn's own keep-alive timer does."""
        self._refusal: errors.ProblemError = errors.MalformedRequestError()
        """The error to answer if the parser stops."""
        self._ended = False
        """Whether nothing more will be read."""
        self._due: errors.ProblemError | None = None
        """The error to answer once the requests before it are answered."""
        self._dropped_bytes = 0
        """Bytes of a request received after its answer."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first head."""
        super().connection_made(_GatheringTransport(transport, self))  # type: ignore[arg-type]
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers."""
        self._await_head_no_longer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse received bytes, unless a head grows too long or reading has ended."""
        if self.is_unread:
            self._dropped_bytes += len(data)
            if self._dropped_bytes > _MOST_DROPPED_BYTES:
                self.transport.abort()
                return
        if self._ended or self.transport.is_closing():
            return
        self._come_bytes = (self._head_bytes or 0) + len(data)
        super().data_received(data)
        if self._ended:
            return
        if self._head_bytes is not None:
            self._head_bytes = self._come_bytes
            if self._head_bytes > self._limits.max_bytes:
                self.refuse(errors.HeadTooLargeError(self._limits.max_bytes))
                return
            size = self._head_bytes + _HEADER_BYTES * len(self.headers)
            self._limits.count(self, size)
        # uvicorn keeps alive no longer once anything came, be it an empty line, or the body of a
        # request that was refused by its head.
        is_waiting = self._head_bytes is not None or self._is_idle()
        if is_waiting and self._overdue is None and not self._ended:
            self._await_head()

    def on_message_begin(self) -> None:
        """Begin a head."""
        self._head_bytes = self._dropped_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """End a head, unless it is parsed again without its offer; one too long ends all."""
        if self.parser.should_upgrade():
            return
        self._head_bytes = None
        if self._overdue is not None:
            self._await_head_no_longer()
        max_bytes = self._limits.max_bytes
        if self._come_bytes > max_bytes:
            # Measured as it is written without needless spaces: more than the head may have come.
            line = b"%s %s HTTP/1.1\r\n\r\n" % (self.parser.get_method(), self.url)
            headers = sum(len(b"%s: %s\r\n" % one) for one in self.headers)
            if len(line) + headers > max_bytes:
                self._refusal = errors.HeadTooLargeError(max_bytes)
                raise self._refusal
        if len(self.url) <= _LONGEST_PARSED:
            super().on_headers_complete()
            return
        # Its query names thousands of segments. No call has a path that is nearly as long, and so
        # none has the beginning of one.
        path, _, query = self.url.partition(b"#")[0].partition(b"?")
        self.url = path[:_LONGEST_PARSED]
        super().on_headers_complete()
        self.scope["query_string"] = query

    def on_message_complete(self) -> None:
        """End a message, unless its head is parsed again."""
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Go on with the next request, or refuse what came after the last."""
        is_last = not self.pipeline
        super().on_response_complete()
        if is_last and self._due is not None and not self.transport.is_closing():
            self._end_with(self._due)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 (uvicorn says the same always)
        """Answer an error to bytes that are no HTTP, or to a head that is too long."""
        self.refuse(self._refusal)

    def refuse(self, error: errors.ProblemError) -> None:
        """Read nothing more: where the next request begins cannot be known.

        The race: whole requests came before, and are not answered yet. They are served, and
        the client would take this for the answer.
        """
        self._await_head_no_longer()
        self._ended = True
        if self._head_bytes is not None:  # the connection lingers, and is counted no longer
            self._head_bytes = None
            self.headers.clear()
            self.url = b""
        self.parser = None  # type: ignore[assignment]  # it keeps a part of the head, too
        is_begun = self.cycle is not None and self.cycle.more_body
        if self._is_idle() or (is_begun and not self.pipeline):
            self._end_with(error)
            return
        if is_begun:  # it is malformed itself, and will not be served
            self.pipeline.popleft()
        self._due = error

    @property
    def is_unread(self) -> bool:
        """Whether a request was answered of which more may come."""
        return self._ended or (
            self._is_idle() and self.cycle is not None and self.cycle.more_body
        )

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _await_head(self) -> None:
        self._overdue = self.loop.call_later(self._limits.timeout_s, self._give_up)

    def _await_head_no_longer(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None
        self._limits.forget(self)

    def _give_up(self) -> None:
        self._overdue = None
        if self.transport.is_closing():
            return
        if not self._is_idle():  # while answers are due, what was sent may not be read
            self._await_head()
        elif self._head_bytes is None:
            self.transport.close()
        else:
            self.refuse(errors.HeadTimeoutError(round(self._limits.timeout_s * 1_000)))

    def _end_with(self, error: errors.ProblemError) -> None:
        status, headers, body = write_problem(error)
        lines = [*self.server_state.default_headers, *headers, (b"connection", b"close")]
        head = b"".join(b"%s: %s\r\n" % line for line in lines)
        self.transport.write(STATUS_LINE[status] + head + b"\r\n" + body)
        self.transport.close()


class _DecliningParser(HttpRequestParser):
    """A parser that stays with HTTP/1.1, as RFC 9110, section 7.8, allows.

    Java's `HttpClient` offers HTTP/2 with every call unless told otherwise. A head with an offer is
    parsed again without it; the protocol leaves alone what it hears while `should_upgrade` says
    True.
    """

    def __init__(self, protocol: BoundedProtocol) -> None:
        self._protocol = protocol
        self._begin_anew()

    def feed_data(self, data: bytes) -> None:  # type: ignore[override]  # (connections give bytes)
        """Parse what came; raises `HttpParserError` for what is no HTTP."""
        while data:
            try:
                super().feed_data(data)
            except HttpParserUpgrade as upgrade:
                method = self.get_method()
                if method == b"CONNECT":
                    msg = "CONNECT is for proxies"
                    raise HttpParserError(msg) from upgrade
                version = self.get_http_version().encode()
                line = b"%s %s HTTP/%s" % (method, self._protocol.url, version)
                headers = self._protocol.headers
                kept = [b"%s: %s" % one for one in headers if one[0] != b"upgrade"]
                data = b"\r\n".join([line, *kept, b"", b""]) + data[upgrade.args[0] :]
                self._begin_anew()
            else:
                return

    def _begin_anew(self) -> None:
        """Forget what was parsed: after a head that closes, the parser drops what follows."""
        super().__init__(self._protocol)
        self.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does


class _GatheringTransport:
    """A transport that writes at the end of the turn, and whose end lets the last answer arrive.

    uvicorn writes the head of an answer and its body separately, and each write goes through the
    whole network stack: for short answers that is a third of all the work.
    """

    __slots__ = ("_parts", "_protocol", "_transport", "is_closing")

    def __init__(self, transport: asyncio.Transport, protocol: BoundedProtocol) -> None:
        self._transport = transport
        self._protocol = protocol
        self._parts: list[bytes] = []
        self.is_closing = transport.is_closing

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (all else is the transport's)
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write before the loop's next turn."""
        if not self._parts:
            self._protocol.loop.call_soon(self._flush)
        self._parts.append(data)

    def _flush(self) -> None:
        """Write what is gathered, unless the connection was lost since: uvloop would raise."""
        if self._parts:
            data = b"".join(self._parts)
            self._parts.clear()
            if not self._transport.is_closing():
                self._transport.write(data)

    def close(self) -> None:
        """Close, after a client that still sends had time to read the answer.

        The race: bytes that come after the end of a connection make the kernel reset it, and
        an answer that was not read yet is lost with it. So for a short while the protocol goes
        on to drop what comes (RFC 9112, section 9.6).
        """
        self._flush()
        if self.is_closing() or not self._protocol.is_unread:
            self._end()
            return
        self.is_closing = lambda: True
        self._transport.resume_reading()
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._protocol.loop.call_later(_LINGER_S, self._end)

    def _end(self) -> None:
        self._transport.close()
        if self._transport.get_extra_info("sslcontext") is not None:
            self._protocol.loop.call_later(_LINGER_S, self._abort)

    def _abort(self) -> None:
        """Wait no longer until the peer says over TLS that it closes too: many never do."""
        if self._transport.get_write_buffer_size():
            self._protocol.loop.call_later(_LINGER_S, self._abort)
        else:
            self._transport.abort()
