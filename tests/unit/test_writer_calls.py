"""A request of many notes may be repeated although it was carried out."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tidegauge.client.transport import Transport
from tidegauge.errors import (
    InvalidPositionError,
    InvalidTimeError,
    ProblemError,
    TimeInFutureError,
    UnavailableError,
    WriterFencedError,
)
from tidegauge.topology import Position
from tidegauge.wire.writers import TimesNoted
from writer_client._client import WriterCalls

ACCEPTED = {
    "status": 200,
    "stream_id": "s",
    "watermark": 20,
    "state": "active",
    "final": False,
}


_Result = Mapping[str, Any] | ProblemError


class Answering(Transport):
    """Answers requests with these results, the last of them for ever."""

    def __init__(self, *answers: Sequence[_Result]) -> None:
        super().__init__("http://127.0.0.1:1")
        self._answers = list(answers)
        self.asked: list[list[tuple[int, Position]]] = []

    async def request(self, *_: Any, **options: Any) -> Any:
        self.asked.append([(one.time, one.position) for one in options["body"].reports])
        results = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return TimesNoted(
            results=[
                one.document() if isinstance(one, ProblemError) else dict(one)
                for one in results
            ]
        )


def _note_to(service: Answering) -> WriterCalls:
    calls = WriterCalls(service, "tests/one", "w")
    asyncio.run(calls.note_times([(10, {0: 5, 1: 2}), (20, {0: 9})]))
    return calls


def _note(*results: _Result) -> WriterCalls:
    return _note_to(Answering(results))


def test_notes_that_were_stored_by_the_first_try_are_no_failure() -> None:
    assert _note(InvalidTimeError("w", 10, 20), ACCEPTED).watermark == 20
    stored = InvalidPositionError(0, 5, "goes back", {0: 9})
    assert _note(stored, ACCEPTED).watermark == 20


@pytest.mark.parametrize(
    "refused",
    [TimeInFutureError(10, 1, 2), WriterFencedError("w", 3)],
    ids=lambda one: one.code,
)
def test_any_other_refusal_is_raised(refused: ProblemError) -> None:
    with pytest.raises(type(refused)):
        _note(refused, ACCEPTED)


def test_a_last_note_that_is_refused_is_raised() -> None:
    with pytest.raises(InvalidTimeError):
        _note(ACCEPTED, InvalidTimeError("w", 20, 30))


@pytest.mark.parametrize(
    "answer",
    [(UnavailableError("moves"), UnavailableError("moves")), (ACCEPTED, UnavailableError("x"))],
    ids=["none stored", "some stored"],
)
def test_notes_that_cannot_be_stored_at_the_moment_follow_as_one(
    answer: tuple[_Result, ...],
) -> None:
    service = Answering(answer, [ACCEPTED])
    assert _note_to(service).watermark == 20
    assert service.asked == [[(10, {0: 5, 1: 2}), (20, {0: 9})], [(20, {0: 9, 1: 2})]]
