"""The way of bytes out of the service: few writes, and an end that lets answers arrive."""

import asyncio
from collections.abc import Callable
from typing import Any

_LINGER_S = 2.0


class GatheringTransport:
    """A transport that writes at the end of the turn; all else it hands on.

    uvicorn writes the head of an answer and its body separately, and each write goes through
    the whole network stack: for short answers that is a third of all the work.

    Parameters
    ----------
    transport
        What writes.
    loop
        Whose turns count.
    is_unread
        Whether a request was answered of which more may come.
    """

    __slots__ = ("_is_unread", "_loop", "_parts", "_transport", "is_closing")

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        is_unread: Callable[[], bool],
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._is_unread = is_unread
        self._parts: list[bytes] = []
        self.is_closing = transport.is_closing

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (whatever the transport has)
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write before the loop's next turn."""
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def write_now(self, data: bytes) -> None:
        """Write a whole answer."""
        self._flush()
        self._transport.write(data)

    def close(self) -> None:
        """Write what is left, then close; who is sending still can read it first.

        The race: bytes that come after the end of a connection make the kernel reset it, and
        an answer that was not read yet is lost with it. So for a short while the protocol goes
        on to drop what comes (RFC 9112, section 9.6).
        """
        self._flush()
        if self.is_closing() or not self._is_unread():
            self._end()
            return
        self.is_closing = _always
        self._transport.resume_reading()
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._loop.call_later(_LINGER_S, self._end)

    def _end(self) -> None:
        self._transport.close()
        if self._transport.get_extra_info("sslcontext") is not None:
            self._loop.call_later(_LINGER_S, self._abort)

    def _abort(self) -> None:
        """Wait no longer until the peer says over TLS that it closes too: many never do."""
        if self._transport.get_write_buffer_size():
            self._loop.call_later(_LINGER_S, self._abort)
        else:
            self._transport.abort()

    def _flush(self) -> None:
        """Write what is gathered, unless the connection was lost since: uvloop would raise."""
        if self._parts:
            data = b"".join(self._parts)
            self._parts.clear()
            if not self._transport.is_closing():
                self._transport.write(data)


def _always() -> bool:
    return True
