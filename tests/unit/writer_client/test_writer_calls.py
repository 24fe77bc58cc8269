"""A request of many notes may be repeated although it was carried out."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import pytest

from tests.patience import until
from tidegauge.client.outage import ServiceUnreachableError
from tidegauge.client.transport import Transport
from tidegauge.errors import (
    InvalidPositionError,
    InvalidTimeError,
    ProblemError,
    UnavailableError,
)
from tidegauge.topology import Position
from tidegauge.wire.writers import RegisterWriter, TimesNoted, WriterRegistered
from writer_client._calls import WriterCalls

ACCEPTED = {
    "status": 200,
    "stream_id": "s",
    "watermark": 20,
    "state": "active",
    "final": False,
}


_Result = Mapping[str, Any] | ProblemError


class Cut(Transport):
    """Cuts the connection of its first requests, and answers each one after these."""

    def __init__(self, count: int) -> None:
        super().__init__("http://127.0.0.1:1")
        self._left = count
        self.asked: list[RegisterWriter] = []

    async def request(self, *_: Any, **options: Any) -> Any:
        self.asked.append(options["body"])
        self._left -= 1
        if self._left >= 0:
            raise ServiceUnreachableError(self.url, "cut")
        return WriterRegistered(
            stream_id="s",
            watermark=None,
            final=False,
            state="joining",
            incarnation=1,
            time=None,
            beat_ms=None,
            position={},
        )


def test_a_registration_is_the_same_until_it_is_answered_and_then_another() -> None:
    service = Cut(2)
    calls = WriterCalls(service, "tests/one", "w")
    for _ in range(2):
        with pytest.raises(ServiceUnreachableError):
            asyncio.run(calls.register(10))
    for _ in range(2):
        asyncio.run(calls.register(10))
    first, *same, second = service.asked
    assert (first.time, first.registration_id is not None) == (10, True)
    assert same == [first, first]
    assert second.registration_id not in {None, first.registration_id}


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


class Slow(Transport):
    """Takes each report that is not below a time, and answers once it is let go on."""

    def __init__(self, stored_time: int = 0) -> None:
        super().__init__("http://127.0.0.1:1")
        self.asked: list[tuple[str, int | None]] = []
        self.go_on = asyncio.Event()
        self._stored_time = stored_time

    async def request(self, method: str, path: str, **options: Any) -> Any:
        self.asked.append((f"{method} {path.rpartition('/')[2]}", options["body"].time))
        await self.go_on.wait()
        if options["body"].time < self._stored_time:
            raise InvalidTimeError("w", options["body"].time, self._stored_time)
        return options["answer"].model_construct(watermark=None)


def _while_it_is_on_its_way(
    first: Callable[[WriterCalls], Coroutine[Any, Any, None]],
) -> list[tuple[str, int | None]]:
    """Beat while another report is on its way, and list what the service was asked."""

    async def run() -> None:
        calls = WriterCalls(service, "tests/one", "w")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(first(calls))
            tasks.create_task(calls.beat(5))
            await until(lambda: bool(service.asked))
            service.go_on.set()

    service = Slow()
    asyncio.run(run())
    return service.asked


def test_a_beat_does_not_overtake_a_note_and_repeats_it() -> None:
    asked = _while_it_is_on_its_way(lambda calls: calls.note_time(10, {0: 5}))
    assert asked == [("POST note-time", 10), ("POST note-time", 10)]


def test_a_writer_that_leaves_beats_no_more() -> None:
    asked = _while_it_is_on_its_way(lambda calls: calls.leave(10, {0: 5}))
    assert asked == [("POST leave", 10)]


def test_a_beat_repeats_a_note_that_was_stored_although_its_answer_was_lost() -> None:
    service = Slow(stored_time=20)
    service.go_on.set()
    asyncio.run(WriterCalls(service, "tests/one", "w").beat(10))
    assert service.asked == [("POST note-time", 10), ("POST note-time", 20)]


def test_a_last_note_that_is_refused_is_raised() -> None:
    with pytest.raises(InvalidTimeError):
        _note(ACCEPTED, InvalidTimeError("w", 20, 30))
