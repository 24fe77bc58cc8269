"""What a head asks for that came before, and where its answer goes."""

from typing import Protocol

_Headers = list[tuple[bytes, bytes]]


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
