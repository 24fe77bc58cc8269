"""Reading bodies, whatever the number of pieces or of reports that they come in."""

import asyncio
import json

import pytest
from starlette.types import Message

from controller.http.messages.decoding import read_note_times
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
REPORT = {"stream": "tests/one", "writer": "w", "position": {}}


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


@pytest.mark.anyio
@pytest.mark.parametrize("time", ["2024-01-01T00:00:00Z", "soon"])
async def test_others_go_on_while_many_reports_are_read_thoroughly(time: str) -> None:
    body = json.dumps({"reports": [REPORT | {"time": time}] * 1_000}).encode()

    reading, turns_of_another = asyncio.create_task(read_note_times(body, 2**16)), 0
    while not reading.done():
        turns_of_another += 1
        await asyncio.sleep(0)
    assert len(reading.result()) == 1_000
    assert turns_of_another >= 10
