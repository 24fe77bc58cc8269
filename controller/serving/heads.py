"""Heads that have no end, and what is no HTTP: refused with a problem, as everything is."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from controller.http.messages.problems import write_problem
from controller.serving.transports import GatheringTransport
from controller.serving.upgrades import SteadfastParser
from tidegauge.errors import HeadTooLargeError, MalformedRequestError, ProblemError

_LONGEST_PARSED = 65_535
"""Longer addresses are too long for the parser of addresses."""


class BoundedProtocol(HttpToolsProtocol):
    """One connection, whose heads are bounded; uvicorn would gather them until memory ends.

    Parameters
    ----------
    max_head_bytes
        Of the first line and the headers of a request.
    given
        As uvicorn gives it.
    """

    def __init__(self, *, max_head_bytes: int, **given: Any) -> None:  # noqa: ANN401 (uvicorn's)
        super().__init__(**given)
        self.parser = SteadfastParser(self)
        self._max_head_bytes = max_head_bytes
        self._head_bytes: int | None = None
        """How much came of a head whose end has not come; None between heads."""
        self._come_bytes = 0
        """How much came since that head began, what is being parsed included."""
        self._refusal: ProblemError = MalformedRequestError()
        """What is wrong, if the parser stops."""
        self._ended = False
        """Whether nothing more will be read."""
        self._due: ProblemError | None = None
        """What is to be refused once the requests before it are answered."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Put the gathering between the protocol and its connection."""
        gathering = GatheringTransport(transport, self.loop, self._is_unread)
        super().connection_made(gathering)  # type: ignore[arg-type]

    def data_received(self, data: bytes) -> None:
        """Parse what came, unless a head grows too long, or nothing more is to be read."""
        if self._ended or self.transport.is_closing():
            return
        self._come_bytes = (self._head_bytes or 0) + len(data)
        super().data_received(data)
        if self._head_bytes is not None:
            self._head_bytes = self._come_bytes
            if self._head_bytes > self._max_head_bytes:
                self._end_in_turn(HeadTooLargeError(self._max_head_bytes))

    def on_message_begin(self) -> None:
        """Begin a head."""
        self._head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """End a head, unless it is parsed again without its offer; one too long ends all."""
        if self.parser.should_upgrade():
            return
        self._head_bytes = None
        if self._come_bytes > self._max_head_bytes < self._measure_head():
            self._refusal = HeadTooLargeError(self._max_head_bytes)
            raise self._refusal
        if len(self.url) <= _LONGEST_PARSED:
            super().on_headers_complete()
        else:
            self._complete_long_head()

    def on_message_complete(self) -> None:
        """End a message, unless its head is parsed again."""
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 (uvicorn says the same always)
        """Refuse what is no HTTP, or was too long."""
        self._end_in_turn(self._refusal)

    def on_response_complete(self) -> None:
        """Go on with the next request, or refuse what came after the last."""
        is_last = not self.pipeline
        super().on_response_complete()
        if is_last and self._due is not None and not self.transport.is_closing():
            self._end_with(self._due)

    def _complete_long_head(self) -> None:
        """End a head whose address is long: its query names thousands of segments.

        No call has a path that is nearly as long, and so none has the beginning of one.
        """
        path, _, query = self.url.partition(b"#")[0].partition(b"?")
        self.url = path[:_LONGEST_PARSED]
        super().on_headers_complete()
        self.scope["query_string"] = query

    def _measure_head(self) -> int:
        """Measure a head as it is written without needless spaces."""
        line = len(b"%s %s HTTP/1.1\r\n\r\n" % (self.parser.get_method(), self.url))
        return line + sum(len(b"%s: %s\r\n" % one) for one in self.headers)

    def _end_in_turn(self, error: ProblemError) -> None:
        """Read nothing more: where the next request begins cannot be known.

        The race: whole requests came before, and are not answered yet. They are served, and
        who sent them would take this for the answer.
        """
        self._head_bytes = None
        self._ended = True
        is_begun = self.cycle is not None and self.cycle.more_body
        if self._is_idle() or (is_begun and not self.pipeline):
            self._end_with(error)
            return
        if is_begun:  # it is malformed itself, and will not be served
            self.pipeline.popleft()
        self._due = error

    def _end_with(self, error: ProblemError) -> None:
        """Answer, and close."""
        status, headers, body = write_problem(error)
        lines = [*self.server_state.default_headers, *headers, (b"connection", b"close")]
        head = b"".join(b"%s: %s\r\n" % line for line in lines)
        self.transport.write(STATUS_LINE[status] + head + b"\r\n" + body)
        self.transport.close()

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _is_unread(self) -> bool:
        cycle = self.cycle
        return self._ended or (
            cycle is not None and cycle.response_complete and cycle.more_body
        )
