"""Heads that offer another protocol: answered in HTTP/1.1, as RFC 9110, section 7.8, allows.

Java's `HttpClient` offers HTTP/2 with every call unless told otherwise. The parser takes such a
head for the last of HTTP on its connection: what follows, the body too, is no more its business.
"""

from typing import Protocol

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

_CONNECT = b"CONNECT"


class _Head(Protocol):
    """What a protocol has gathered of a head."""

    url: bytes
    headers: list[tuple[bytes, bytes]]


class SteadfastParser(HttpRequestParser):
    """A parser that stays with HTTP/1.1.

    A head with an offer is parsed again without it; the protocol leaves alone what it hears while
    `should_upgrade` says True.

    Parameters
    ----------
    protocol
        Hears what is parsed.
    """

    def __init__(self, protocol: _Head) -> None:
        self._protocol = protocol
        self._begin_anew()

    def feed_data(self, data: bytes) -> None:  # type: ignore[override]  # (connections give bytes)
        """Parse what came; raises `HttpParserError` for what is no HTTP."""
        while data:
            try:
                super().feed_data(data)
            except HttpParserUpgrade as upgrade:
                data = self._head_without_offer() + data[upgrade.args[0] :]
                self._begin_anew()
            else:
                return

    def _begin_anew(self) -> None:
        """Forget what was parsed: after a head that closes, the parser drops what follows."""
        super().__init__(self._protocol)
        self.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does

    def _head_without_offer(self) -> bytes:
        method = self.get_method()
        if method == _CONNECT:
            msg = "CONNECT is for proxies"
            raise HttpParserError(msg)
        line = b"%s %s HTTP/%s" % (method, self._protocol.url, self.get_http_version().encode())
        kept = [b"%s: %s" % one for one in self._protocol.headers if one[0] != b"upgrade"]
        return b"\r\n".join([line, *kept, b"", b""])
