"""Many events at a call, over a real server: the same promises as for one."""

import asyncio
from collections import defaultdict
from itertools import count

import httpx
import pyarrow as pa
import pytest

from reader_client import AsyncStreamClient, StreamClient
from tests.server import ServerProcess
from tidegauge.errors import UnknownStreamError
from writer_client import AsyncWriter, Writer, WriterClosedError

pytestmark = pytest.mark.only_on("sqlite", "clients know the service only")

KEYS = [f"key-{number}" for number in range(7)]
_NUMBERS = count(1)


def _stream(server: ServerProcess, segments: int = 2) -> str:
    name = f"many/stream-{next(_NUMBERS)}"
    settings = {"segments": segments, "mark_interval_ms": 0, "mark_resolution_ms": 0}
    httpx.put(f"{server.url}/v1/streams/{name}", json=settings).raise_for_status()
    return name


def _stored(server: ServerProcess, stream: str) -> list[list[tuple[str, int | None, int]]]:
    """Read key, event time and number of each event, segment by segment."""
    names = ("key", "event_time", "value")
    with StreamClient(server.url, stream) as client:
        return [
            [
                (key, event_time, int(value))
                for events in client.read(segment, 0, end)
                for key, event_time, value in zip(
                    *(events.batch.column(name).to_pylist() for name in names), strict=True
                )
            ]
            for segment, end in sorted(client.tail().tail.items())
        ]


def _by_key(server: ServerProcess, stream: str) -> dict[str, list[int]]:
    found = defaultdict(list)
    for segment in _stored(server, stream):
        for key, _, number in segment:
            found[key].append(number)
    return dict(found)


def _keys(numbers: range) -> list[str]:
    return [KEYS[number % len(KEYS)] for number in numbers]


def _expected(total: int) -> dict[str, list[int]]:
    return {key: list(range(at, total, len(KEYS))) for at, key in enumerate(KEYS)}


def _write_many(writer: Writer, numbers: range) -> None:
    writer.write_many(
        [str(number) for number in numbers], keys=_keys(numbers), event_times=list(numbers)
    )


def _write(writer: Writer, numbers: range) -> None:
    for number, key in zip(numbers, _keys(numbers), strict=True):
        writer.write(str(number), key=key, event_time=number)


def test_each_key_keeps_its_order_with_single_writes_in_between(
    shared_server: ServerProcess,
) -> None:
    stream = _stream(shared_server)
    with Writer(shared_server.url, stream, "one") as writer:
        for start in range(0, 10_000, 1_000):
            _write(writer, range(start, start + 100))
            _write_many(writer, range(start + 100, start + 900))
            numbers = range(start + 900, start + 1_000)
            values = pa.array([str(number) for number in numbers])
            table = {"value": values, "key": _keys(numbers), "event_time": list(numbers)}
            writer.write_many(pa.table(table))
    assert _by_key(shared_server, stream) == _expected(10_000)


def test_a_note_covers_exactly_the_calls_before_it(shared_server: ServerProcess) -> None:
    stream = _stream(shared_server)
    with Writer(shared_server.url, stream, "one") as writer:
        for start in range(0, 3_000, 100):
            _write_many(writer, range(start, start + 100))
            writer.note_time(start + 100)
    stored = _stored(shared_server, stream)
    with StreamClient(shared_server.url, stream) as client:
        marks = client.marks()
    assert marks[-1].lower == 3_000
    for mark in marks:
        covered = [stored[at][:offset] for at, offset in mark.cut.items()]
        numbers = sorted(number for segment in covered for _, _, number in segment)
        assert numbers == list(range(mark.lower))


def test_a_refused_argument_leaves_nothing_written(shared_server: ServerProcess) -> None:
    stream = _stream(shared_server)
    with Writer(shared_server.url, stream, "one") as writer:
        with pytest.raises(TypeError, match=r"keys\[1\]: key is None; pass a string"):
            writer.write_many(["1", "2"], keys=["k", None])
        with pytest.raises(ValueError, match="2 values and 1 keys; pass as many"):
            writer.write_many(["1", "2"], keys=["k"])
        assert writer.unstored == 0
        writer.write_many([], keys=[])
        writer.write_many(["3"], keys=["k"])
    assert [one for segment in _stored(shared_server, stream) for one in segment] == [
        ("k", None, 3)
    ]
    with pytest.raises(WriterClosedError):
        writer.write_many(["4"], keys=["k"])


def test_an_asynchronous_writer_takes_many_and_waits_while_its_buffer_is_full(
    shared_server: ServerProcess,
) -> None:
    stream = _stream(shared_server)

    async def write() -> None:
        async with AsyncWriter(
            shared_server.url, stream, "one", batch_bytes=2_000, buffer_bytes=4_000
        ) as writer:
            numbers = range(3_000)
            values = [str(number) for number in numbers]
            await writer.write_many(values, keys=_keys(numbers))
            assert 0 < writer.unstored <= 200

    asyncio.run(write())
    assert _by_key(shared_server, stream) == _expected(3_000)


def test_nothing_is_lost_or_doubled_when_the_server_is_killed(server: ServerProcess) -> None:
    stream = _stream(server)
    with Writer(server.url, stream, "steady", batch_bytes=20_000) as writer:
        for start in range(0, 30_000, 1_000):
            _write_many(writer, range(start, start + 1_000))
            if start % 10_000 == 5_000:
                server.kill()
                server.start()
    assert _by_key(server, stream) == _expected(30_000)


def test_what_came_with_a_chunk_is_read_on_without_another_request(
    shared_server: ServerProcess,
) -> None:
    stream = _stream(shared_server, segments=1)
    with Writer(shared_server.url, stream, "one") as writer:
        _write_many(writer, range(10))

    async def read() -> list[list[int]]:
        client = AsyncStreamClient(shared_server.url, stream)
        try:
            pages = [await client.fetch(0, 0, 4)]
            await client.delete()
            pages += [await client.fetch(0, 4, 6), await client.fetch(0, 6, 10)]
            with pytest.raises(UnknownStreamError):
                await client.fetch(0, 0, 4)
        finally:
            await client.aclose()
        columns = [events.batch.column("value") for page in pages for events in page]
        return [[int(value.as_py()) for value in column] for column in columns]

    assert asyncio.run(read()) == [[0, 1, 2, 3], [4, 5], [6, 7, 8, 9]]
