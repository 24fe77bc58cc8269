"""A request of many notes may be repeated although it was carried out."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from tidegauge.errors import (
    InvalidPositionError,
    InvalidTimeError,
    ProblemError,
    TimeInFutureError,
    WriterFencedError,
)
from tidegauge.transport import Transport
from tidegauge.wire.writers import TimesNoted
from writer_client._client import WriterCalls

ACCEPTED = {
    "status": 200,
    "stream_id": "s",
    "watermark": 20,
    "state": "active",
    "final": False,
}


class Answering(Transport):
    """Answers every request with these results."""

    def __init__(self, results: list[dict[str, Any]]) -> None:
        super().__init__("http://127.0.0.1:1")
        self._results = results

    async def request(self, *_: Any, **__: Any) -> Any:
        return TimesNoted(results=self._results)


def _note(*results: Mapping[str, Any] | ProblemError) -> WriterCalls:
    documents = [
        one.document() if isinstance(one, ProblemError) else dict(one) for one in results
    ]
    calls = WriterCalls(Answering(documents), "tests/one", "w")
    asyncio.run(calls.note_times([(10, {0: 5}), (20, {0: 9})]))
    return calls


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
