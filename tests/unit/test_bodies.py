"""Reading bodies, whatever the number of pieces that they come in."""

import asyncio
from time import process_time

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Message

from controller.http.plain import read_body
from tidegauge.errors import BodyTooLargeError

PIECE = b"x" * 65_536
END: Message = {"type": "http.request", "body": b"end"}
LIMIT = 2**25


def _read(*messages: Message) -> bytes:
    left = iter(messages)

    async def receive() -> Message:
        return next(left)

    return asyncio.run(read_body(receive, LIMIT))


def _pieces(count: int) -> list[Message]:
    return [{"type": "http.request", "body": PIECE, "more_body": True}] * count


def test_a_body_in_many_pieces_takes_time_by_its_size() -> None:
    began = process_time()
    assert _read(*_pieces(500), END) == PIECE * 500 + b"end"
    assert process_time() - began < 1


def test_a_body_larger_than_the_limit_is_not_read_to_its_end() -> None:
    with pytest.raises(BodyTooLargeError):
        _read(*_pieces(513))


def test_a_body_that_is_cut_off_is_none() -> None:
    with pytest.raises(ClientDisconnect):
        _read(*_pieces(1), {"type": "http.disconnect"})
