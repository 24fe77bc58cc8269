"""HTTP/1.1 below the framework: declines offers of upgrades, takes long addresses, gathers writes.

uvicorn alone fails clients of the service in two ways, and costs a tenth more:

- It reads no body of a request that offers another protocol, as Java's `HttpClient` does with every
  call, and takes that body for the next request.
- It refuses addresses of more than 65 535 bytes. A position of 10 000 segments is longer.
- It writes the head of an answer and its body separately, each through the whole network stack.

The names in uvicorn and httptools that this module depends on are listed in the test of the upper
bounds of the dependencies.
"""

import asyncio
from typing import Any

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_LONGEST_PARSED = 65_535
"""Longer addresses are too long for the parser of addresses."""
_TLS_CLOSE_S = 2.0
"""Time for an answer to arrive: a few round trips."""


class Protocol(HttpToolsProtocol):
    """One connection, which stays with HTTP/1.1, as RFC 9110, section 7.8, allows."""

    def __init__(self, **given: Any) -> None:  # noqa: ANN401 (uvicorn's)
        super().__init__(**given)
        self.parser = _DecliningParser(self)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Put what gathers writes between uvicorn and its transport."""
        super().connection_made(_GatheringTransport(transport))  # type: ignore[arg-type]

    def on_headers_complete(self) -> None:
        """Begin a request, unless its head is parsed again without its offer."""
        if self.parser.should_upgrade():
            return
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
        """End a request, unless its head is parsed again."""
        if not self.parser.should_upgrade():
            super().on_message_complete()


class _DecliningParser(HttpRequestParser):
    """A parser that parses a head with an offer again without it.

    The protocol ignores what it hears while `should_upgrade` says True.
    """

    def __init__(self, protocol: Protocol) -> None:
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
                kept = [b"%s: %s" % header for header in headers if header[0] != b"upgrade"]
                data = b"\r\n".join([line, *kept, b"", b""]) + data[upgrade.args[0] :]
                self._begin_anew()
            else:
                return

    def _begin_anew(self) -> None:
        """Forget what was parsed: after a head that closes, the parser drops what follows."""
        super().__init__(self._protocol)
        self.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does


class _GatheringTransport:
    """A transport that writes at the end of the event loop's turn."""

    __slots__ = ("_parts", "_transport", "is_closing")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._parts: list[bytes] = []
        self.is_closing = transport.is_closing

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (all else is the transport's)
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write before the loop's next turn."""
        if not self._parts:
            asyncio.get_running_loop().call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        """Close after what was gathered."""
        self._flush()
        self._transport.close()
        if self._transport.get_extra_info("sslcontext") is not None:
            asyncio.get_running_loop().call_later(_TLS_CLOSE_S, self._abort)

    def _abort(self) -> None:
        """Wait no longer until the peer says over TLS that it closes too: many never do."""
        if self._transport.get_write_buffer_size():
            asyncio.get_running_loop().call_later(_TLS_CLOSE_S, self._abort)
        else:
            self._transport.abort()

    def _flush(self) -> None:
        """Write what is gathered, unless the connection was lost since: uvloop would raise."""
        if self._parts:
            data = b"".join(self._parts)
            self._parts.clear()
            if not self._transport.is_closing():
                self._transport.write(data)
