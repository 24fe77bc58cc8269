"""Writers, readers and their groups while segments split and merge."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from reader_client import Reader, ReaderGroup, StreamClient, TimeWindow
from tests.conftest import NewServer
from tests.patience import wait_until
from tests.postgres import Cluster
from tests.server import ServerProcess
from tests.service.controllers import LEASE_MS, controllers
from tidegauge.errors import SegmentLimitError, TopologyChangedError, UnknownStreamSegmentError
from writer_client import Writer

KEYS = [f"key-{number}" for number in range(12)]
_NUMBERS = count(1)
_SETTINGS = {"mark_interval_ms": 0, "mark_resolution_ms": 0}


@pytest.fixture
def stream() -> str:
    return f"scaling/clients-{next(_NUMBERS)}"


@pytest.fixture
def client(shared_server: ServerProcess, stream: str) -> Iterator[StreamClient]:
    with StreamClient(shared_server.url, stream) as one:
        one.create(segments=1, **_SETTINGS)
        yield one


def _write(writer: Writer, rounds: range) -> None:
    """Write a number to each key in every round, and note its time."""
    for number in rounds:
        for key in KEYS:
            writer.write(str(number), key=key, event_time=1_000 + number)
        writer.note_time(1_000 + number)


def _read(reader: Reader, found: dict[str, list[int]], count: int) -> None:
    """Read until so many events at least are found in all."""

    def is_read() -> bool:
        for event in reader.read_next(wait_ms=50):
            found[event.key].append(int(event.value))
        return sum(map(len, found.values())) >= count

    wait_until(is_read)


def test_a_writer_that_is_open_goes_on_in_the_new_segments_and_keys_keep_their_order(
    shared_server: ServerProcess, client: StreamClient, stream: str
) -> None:
    found: dict[str, list[int]] = defaultdict(list)
    with ReaderGroup(shared_server.url, stream) as group:
        group.create([stream])
        with (
            Writer(shared_server.url, stream, "w") as writer,
            Reader(shared_server.url, stream, "r") as reader,
        ):
            _write(writer, range(100))
            client.split(0, 3)
            _write(writer, range(100, 200))
            _read(reader, found, 100 * len(KEYS))
            client.merge([2, 1])
            _write(writer, range(200, 300))
            client.scale([3, 4], [(0, 0.5), (0.5, 1)])
            _write(writer, range(300, 400))
            writer.flush()
            _read(reader, found, 400 * len(KEYS))
            assert found == {key: list(range(400)) for key in KEYS}
            reader.read_next(wait_ms=0)  # confirms what was read
            wait_until(lambda: group.get_time_window(stream) == TimeWindow(1_399, None))
            assert group.position(stream) == client.tail().tail
    assert set(client.topology().unsealed) == {5, 6}


def test_what_was_scaled_is_there_after_a_crash_and_writers_go_on(
    new_server: NewServer, stream: str
) -> None:
    found: dict[str, list[int]] = defaultdict(list)
    with (
        new_server() as server,
        StreamClient(server.url, stream) as client,
        ReaderGroup(server.url, stream) as group,
    ):
        client.create(segments=1, **_SETTINGS)
        group.create([stream])
        writer = Writer(server.url, stream, "w")
        _write(writer, range(50))
        client.split(0)
        server.kill()
        server.start()
        _write(writer, range(50, 100))
        merged = client.merge([1, 2])
        _write(writer, range(100, 150))
        server.kill()
        server.start()
        writer.close()
        assert client.topology().unsealed == (3,)
        assert client.describe().topology == merged.topology
        with Reader(server.url, stream, "r") as reader:
            _read(reader, found, 150 * len(KEYS))
    assert found == {key: list(range(150)) for key in KEYS}


def test_a_lost_answer_does_not_scale_twice(client: StreamClient) -> None:
    revision = client.split(0).topology.revision
    again = client.split(0)
    assert [one.number for one in again.segments] == [1, 2]
    assert again.topology.revision == revision


def test_what_cannot_be_scaled_raises_what_is_wrong(client: StreamClient) -> None:
    client.split(0)
    with pytest.raises(UnknownStreamSegmentError):
        client.split(7)
    with pytest.raises(TopologyChangedError) as changed:
        client.split(0, 3)
    assert changed.value.topology_revision == 1
    with pytest.raises(ValueError, match="parts=0"):
        client.split(1, 0)
    client.configure(max_segments=2)
    with pytest.raises(SegmentLimitError) as limited:
        client.split(1)
    assert (limited.value.segments, limited.value.limit) == (3, 2)


@pytest.mark.only_on("postgresql", "several controllers share one")
def test_the_next_holder_knows_how_a_stream_was_scaled(
    cluster: Cluster, tmp_path: Path, stream: str
) -> None:
    found: dict[str, list[int]] = defaultdict(list)
    with controllers(cluster, tmp_path, 2, lease_ms=LEASE_MS) as both:
        holder, other = both.servers
        with StreamClient(holder.url, stream) as client:
            client.create(segments=1, **_SETTINGS)
        with (
            StreamClient(other.url, stream) as client,
            ReaderGroup(other.url, stream) as group,
            Writer(other.url, stream, "w") as writer,
        ):
            group.create([stream])
            _write(writer, range(20))
            client.split(0)
            _write(writer, range(20, 40))
            writer.flush()
            holder.kill()
            client.merge([1, 2])
            _write(writer, range(40, 60))
            writer.flush()
            assert client.topology().unsealed == (3,)
            with Reader(other.url, stream, "r") as reader:
                _read(reader, found, 60 * len(KEYS))
    assert found == {key: list(range(60)) for key in KEYS}
