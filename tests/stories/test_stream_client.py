"""What operators do from Python: list the writers of a stream, and drop one."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from reader_client import (
    AsyncStreamClient,
    Events,
    ServiceUnreachableError,
    StreamClient,
    WatermarkTimeoutError,
)
from tests.patience import PATIENCE_S
from tests.server import Api, ServerProcess, free_port
from tidegauge.errors import (
    ImmutableSettingError,
    StreamExistsError,
    StreamReplacedError,
    UnknownStreamError,
    UnknownWriterError,
)

pytestmark = pytest.mark.only_on("sqlite", "clients know the service only")

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


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            {"min_writers": None},
            "min_writers=None: null is not an integer; send a JSON integer or",
        ),
        ({"log": "kafka"}, "log='kafka': Input should be 'embedded' or 'external'"),
        (
            {"mark_interval_ms": -1},
            "mark_interval_ms=-1: Input should be greater than or equal",
        ),
        (
            {"partitions": 4},
            "partitions=4: there is no such setting; there are aggregation_tim",
        ),
    ],
)
def test_a_setting_that_cannot_be_is_named_with_its_value_and_what_can_be(
    settings: dict[str, object], problem: str
) -> None:
    with StreamClient(f"http://127.0.0.1:{free_port()}", "operated/never") as client:
        with pytest.raises(ValueError, match=problem) as refused:
            client.create(**settings)
        assert "pydantic" not in str(refused.value)
        if "log" not in settings:
            with pytest.raises(ValueError, match=problem):
                client.configure(**settings)


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
        with pytest.raises(ValueError, match="'a/b' is not a valid name"):
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


def test_a_stream_is_created_configured_and_deleted(shared_server: ServerProcess) -> None:
    with StreamClient(shared_server.url, "operated/lifecycle") as client:
        first = client.create(segments=2, min_writers=2)
        assert (first.config.segments, first.config.min_writers) == (2, 2)
        assert client.create(segments=2).stream_id == first.stream_id
        with pytest.raises(StreamExistsError, match="tidegauge configure operated/lifecycle"):
            client.create(min_writers=1)
        changed = client.configure(min_writers=1, aggregation_timeout_ms=None)
        assert (changed.config.min_writers, changed.config.aggregation_timeout_ms) == (1, None)
        with pytest.raises(ImmutableSettingError):
            client.configure(segments=3)
        client.delete()
        with pytest.raises(UnknownStreamError, match="in Python StreamClient"):
            client.delete()
        assert client.create(segments=1).stream_id != first.stream_id
        assert client.describe().config.segments == 1


def test_a_client_that_looked_at_a_stream_changes_and_deletes_no_other_of_its_name(
    shared_server: ServerProcess,
) -> None:
    name = "operated/replaced"
    with StreamClient(shared_server.url, name) as late, Api(shared_server.url, name) as api:
        late.create()
        api.client.delete(api.path).raise_for_status()
        api.create()
        with pytest.raises(StreamReplacedError):
            late.configure(min_writers=3)
        with pytest.raises(StreamReplacedError):
            late.delete()
        assert api.client.get(api.path).json()["config"]["min_writers"] == 0


def test_a_time_is_waited_for(shared_server: ServerProcess) -> None:
    name, noon = "operated/awaited", datetime(2024, 1, 1, 12, tzinfo=UTC)
    with (
        StreamClient(shared_server.url, name) as client,
        Api(shared_server.url, name) as api,
        ThreadPoolExecutor() as thread,
    ):
        api.create()
        api.note("a", 1_704_110_399_999, 1)
        with pytest.raises(
            WatermarkTimeoutError, match="no writer is ahead; it rises"
        ) as caught:
            client.wait_until(noon, timedelta(milliseconds=50))
        assert isinstance(caught.value, TimeoutError)
        assert caught.value.explanation.reason == "caught_up"
        assert (caught.value.stream, caught.value.watermark) == (name, 1_704_110_399_999)
        with pytest.raises(ValueError, match=r"are these seconds\?.*1704110400000"):
            client.wait_until(1_704_110_400)
        with pytest.raises(TypeError, match=r"timedelta\(seconds=10\)"):
            client.wait_until(noon, 1)  # type: ignore[arg-type]
        waiting = thread.submit(client.wait_until, noon)
        api.note("a", 1_704_110_400_000, 2)
        assert waiting.result(timeout=PATIENCE_S) == 1_704_110_400_000


def test_a_wait_ends_soon_after_its_time_though_the_service_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidegauge.client.stream_calls._LAST_WORD_S", 0.1)
    hour = timedelta(hours=1)
    nobody = f"http://127.0.0.1:{free_port()}"
    with (
        StreamClient(nobody, "operated/away", retry_for=hour) as client,
        pytest.raises(ServiceUnreachableError, match="after the timeout"),
    ):
        client.wait_until(NOW, timedelta(milliseconds=50))
