"""What operators do from Python: list the writers of a stream, and drop one."""

import asyncio
from datetime import timedelta
from itertools import count

import pytest

from reader_client import (
    AsyncStreamClient,
    Events,
    StreamClient,
    StreamReplacedError,
    UnknownWriterError,
)
from tests.server import Api, ServerProcess

NOW = 1_700_000_000_000
MANY = 1_001
_NUMBERS = count(1)


@pytest.fixture
def stream(shared_server: ServerProcess) -> str:
    """A stream of its own, with more writers than a page holds, one of which is ahead."""
    name = f"operated/stream-{next(_NUMBERS)}"
    with Api(shared_server.url, name) as api:
        api.create()
        api.many({"writer": f"w{n:04}", "time": NOW, "position": {}} for n in range(MANY))
        api.note("fast", NOW + 1)
    return name


def test_writers_are_listed_all_or_those_in_a_state(
    shared_server: ServerProcess, stream: str
) -> None:
    with StreamClient(shared_server.url, stream) as client:
        assert [one.writer for one in client.writers()] == [
            "fast",
            *(f"w{n:04}" for n in range(MANY)),
        ]
        assert len(client.writers(state="behind")) == MANY
        assert [one.writer for one in client.writers(state="active")] == ["fast"]
        assert client.writers(state="left") == []


def test_a_writer_that_holds_the_others_up_is_dropped(
    shared_server: ServerProcess, stream: str
) -> None:
    with StreamClient(shared_server.url, stream) as client:
        dropped = client.expire("w0007")
        assert (dropped.writer, dropped.state) == ("w0007", "expired")
        assert [one.writer for one in client.writers(state="expired")] == ["w0007"]
        with pytest.raises(UnknownWriterError):
            client.expire("nobody")
        with pytest.raises(ValueError, match="'a/b' is no valid name"):
            client.expire("a/b")


def test_a_writer_of_another_stream_of_the_name_is_not_dropped(
    shared_server: ServerProcess, stream: str
) -> None:
    async def expire_too_late() -> None:
        client = AsyncStreamClient(shared_server.url, stream)
        try:
            (first, *_) = await client.writers(state="behind")
            with Api(shared_server.url, stream) as api:
                api.client.delete(api.path).raise_for_status()
                api.create()
                api.note(first.writer, NOW)
            with pytest.raises(StreamReplacedError):
                await client.expire(first.writer)
        finally:
            await client.aclose()

    asyncio.run(expire_too_late())


def test_a_position_may_name_all_of_ten_thousand_segments(shared_server: ServerProcess) -> None:
    name, segments = "operated/wide", 10_000
    with Api(shared_server.url, name) as api:
        api.create(log="embedded", segments=segments)
    everywhere = dict.fromkeys(range(segments), 2**63 - 1)
    with StreamClient(shared_server.url, name) as client:
        assert client.tail(after=everywhere).tail == dict.fromkeys(range(segments), 0)
        assert client.marks_at_position(everywhere).passed is None


def test_a_wait_for_events_may_outlast_the_silence_of_other_calls(
    shared_server: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegauge.client.transport._SILENCE_S", 1.0)
    with Api(shared_server.url, "operated/quiet") as api:
        api.create(log="embedded")

    async def fetch() -> list[Events]:
        once = timedelta(0)
        client = AsyncStreamClient(shared_server.url, "operated/quiet", retry_for=once)
        try:
            return await client.fetch(0, 0, 1, wait_ms=1_500)
        finally:
            await client.aclose()

    assert asyncio.run(fetch()) == []
