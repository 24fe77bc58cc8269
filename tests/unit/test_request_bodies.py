"""Reading bodies, whatever the number of pieces that they come in."""

import asyncio

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Message

from controller.http.messages.plain import read_body
from tidegauge.errors import BodyTooLargeError


class Piece(bytes):
    """Cannot be put behind what came before: for each of them that would copy all of it."""

    __slots__ = ()

    def __radd__(self, _before: object) -> bytes:
        pytest.fail("what came before is copied")


PIECE = Piece(b"x" * 65_536)
END: Message = {"type": "http.request", "body": b"end"}
LIMIT = 2**25


def _read(*messages: Message) -> bytes:
    left = iter(messages)

    async def receive() -> Message:
        return next(left)

    return asyncio.run(read_body(receive, LIMIT))


def _pieces(count: int) -> list[Message]:
    return [{"type": "http.request", "body": PIECE, "more_body": True}] * count


def test_a_body_in_many_pieces_is_put_together_once() -> None:
    assert _read(*_pieces(500), END) == bytes(PIECE) * 500 + b"end"


def test_putting_it_together_piece_by_piece_would_be_seen() -> None:
    with pytest.raises(pytest.fail.Exception, match="is copied"):
        assert b"before" + PIECE


def test_a_body_larger_than_the_limit_is_not_read_to_its_end() -> None:
    with pytest.raises(BodyTooLargeError):
        _read(*_pieces(513))


def test_a_body_that_is_cut_off_is_none() -> None:
    with pytest.raises(ClientDisconnect):
        _read(*_pieces(1), {"type": "http.disconnect"})
