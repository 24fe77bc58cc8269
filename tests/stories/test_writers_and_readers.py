"""Writers of each kind and readers of a group over a real server, once."""

import asyncio
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from itertools import count

import pyarrow as pa
import pytest

from reader_client import Reader, ReaderGroup, StreamClient
from tests.server import ServerProcess
from writer_client import AsyncWriter, TimeReporter, Writer
from writer_client.strategies import BoundedOutOfOrderness

pytestmark = pytest.mark.only_on("sqlite", "clients know the service only")

KEYS = [f"key-{number}" for number in range(7)]
LAST = 3_000
TIME = 1_700_000_000_000
_NUMBERS = count(1)


@pytest.fixture
def stream(shared_server: ServerProcess) -> Iterator[StreamClient]:
    name = f"stories/stream-{next(_NUMBERS)}"
    with StreamClient(shared_server.url, name) as client:
        client.create(segments=2, mark_interval_ms=0, mark_resolution_ms=0)
        yield client


def _write(writer: Writer) -> None:
    """Write numbers, each at its own time: one by one, many at a call, and in transactions."""
    for start in range(0, LAST, 100):
        numbers = range(start, start + 100)
        keys = [KEYS[number % len(KEYS)] for number in numbers]
        values = [str(number) for number in numbers]
        for number, key in list(zip(numbers, keys, strict=True))[:40]:
            writer.write(str(number), key=key, event_time=number)
        writer.write_many(values[40:60], keys=keys[40:60], event_times=list(numbers)[40:60])
        table = {"value": values[60:], "key": keys[60:], "event_time": list(numbers)[60:]}
        if start % 500:
            writer.write_many(pa.table(table))
            writer.note_time(start + 100)
        else:
            with writer.transaction() as transaction:
                transaction.write_many(pa.table(table))
                transaction.note_time(start + 100)


def test_each_event_is_read_once_in_order_and_each_note_covers_what_was_written_before_it(
    shared_server: ServerProcess, stream: StreamClient
) -> None:
    url, name = shared_server.url, str(stream.describe().stream)
    with ReaderGroup(url, name) as group, Writer(url, name, "writer") as writer:
        group.create([name], heartbeat_ms=100)
        with Reader(url, name, "one") as one, Reader(url, name, "two") as two:
            _write(writer)
            writer.close()
            read = defaultdict[int, list[tuple[int, str, int]]](list)
            while sum(map(len, read.values())) < LAST:
                for reader in (one, two):
                    for event in reader.read_next(wait_ms=0):
                        found = event.offset, event.key, int(event.value)
                        read[event.segment].append(found)
        assert sorted(number for rows in read.values() for *_, number in rows) == list(
            range(LAST)
        )
        assert sum(group.position(name).values()) == LAST
        assert group.get_time_window(name).lower == LAST
    for rows in read.values():
        assert [offset for offset, *_ in rows] == list(range(len(rows)))
        for wanted in KEYS:
            numbers = [number for _, key, number in rows if key == wanted]
            assert numbers == sorted(numbers)
    marks = stream.marks(after=0)
    assert marks[-1].lower == LAST
    for mark in marks:
        covered = [row for segment, end in mark.cut.items() for row in read[segment][:end]]
        assert sorted(number for *_, number in covered) == list(range(mark.lower))


def test_a_strategy_notes_for_an_asynchronous_writer_and_for_a_log_elsewhere(
    shared_server: ServerProcess, stream: StreamClient
) -> None:
    url, name = shared_server.url, str(stream.describe().stream)

    async def write() -> None:
        strategy = BoundedOutOfOrderness(timedelta(seconds=10))
        async with AsyncWriter(url, name, "async", strategy=strategy) as writer:
            for number in range(1_000):
                time = TIME + 1_000 * (number - number % 2)
                await writer.write(str(number), key=str(number), event_time=time)

    asyncio.run(write())
    (*_, mark) = stream.marks(after=0)
    assert (mark.lower, sum(mark.cut.values())) == (TIME + 988_000, 1_000)
    with StreamClient(url, f"{name}-external") as external:
        external.create(log="external", segments=2, mark_interval_ms=0)
        with TimeReporter(url, f"{name}-external", "api") as reporter:
            reporter.note_time(TIME, {0: 10, 1: 10})
        (mark,) = external.marks()
    assert (mark.lower, dict(mark.cut)) == (TIME, {0: 10, 1: 10})


def test_four_lines_of_shell_are_a_producer(shared_server: ServerProcess) -> None:
    script = f"""
S={shared_server.url}/v1/streams/stories/shell
curl -fsS -X PUT $S --json '{{"segments": 2}}' -o /dev/null
echo '{{"key": "taxi-3", "event_time": {TIME}, "value": "hello"}}' | curl -fsS "$S/events?writer=gateway-7&note_time={TIME}" -H 'content-type: application/x-ndjson' --data-binary @- -o /dev/null
curl -fsS $S/watermark $S/tail
"""
    said = subprocess.run(
        ["bash", "-e"], input=script, capture_output=True, text=True, check=True
    )
    assert f'"watermark":{TIME}' in said.stdout.replace(" ", "")
    with StreamClient(shared_server.url, "stories/shell") as client:
        assert sorted(client.tail().tail.values()) == [0, 1]


def test_an_address_may_name_all_of_ten_thousand_segments(shared_server: ServerProcess) -> None:
    everywhere = dict.fromkeys(range(10_000), 2**63 - 1)
    with StreamClient(shared_server.url, "stories/wide") as client:
        client.create(segments=10_000)
        assert client.tail(after=everywhere).tail == dict.fromkeys(range(10_000), 0)
        assert client.marks_at_position(everywhere).passed is None
