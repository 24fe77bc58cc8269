"""Segments follow the load of a real writer, through ``kill -9`` of the service."""

import threading
from collections import defaultdict

import pytest

from reader_client import Reader, ReaderGroup, StreamClient
from tests.conftest import NewServer
from tests.patience import wait_until
from writer_client import Writer

pytestmark = pytest.mark.only_on("sqlite")

STREAM = "scaling/load"
KEYS = 12


class Load(threading.Thread):
    """A writer of some thousand events a second, or of a few; each key gets 0, 1, 2 and so on."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self.at_once = 100
        self.written = 0
        self.stop = threading.Event()

    def run(self) -> None:
        with Writer(self._url, STREAM, "w") as writer:
            while not self.stop.wait(0.05):
                for _ in range(self.at_once):
                    number, key = divmod(self.written, KEYS)
                    writer.write(str(number), key=str(key), event_time=self.written)
                    self.written += 1
                writer.note_time(self.written)


def test_segments_follow_a_load_never_to_and_fro_and_every_key_keeps_its_order(
    new_server: NewServer,
) -> None:
    """The bounds are far from what a busy machine does: hundreds a second, and a few."""
    policy = {"events_per_s": 40, "window_ms": 2_000, "cooldown_ms": 2_000}
    with (
        new_server() as server,
        StreamClient(server.url, STREAM) as client,
        ReaderGroup(server.url, STREAM) as group,
    ):

        def growing() -> int:
            return len(client.topology().unsealed)

        client.create(segments=1, max_segments=3, scaling=policy, mark_interval_ms=0)
        group.create([STREAM])
        load = Load(server.url)
        load.start()
        wait_until(lambda: growing() == 2)
        server.kill()
        server.start()
        wait_until(lambda: growing() == 3)
        load.at_once = 1
        wait_until(lambda: growing() == 1)
        load.stop.set()
        load.join()
        scaling = client.describe().scaling
        assert scaling is not None
        assert [len(action.sealed) for action in scaling.actions] == [1, 1, 2, 2]
        assert all(" took " in action.reason for action in scaling.actions)
        logged = [line for line in server.log.read_text().splitlines() if "scaled" in line]
        for action, line in zip(scaling.actions, logged, strict=True):
            assert action.reason in line
        assert _read(server.url, load.written) == {
            str(key): list(range(-(-(load.written - key) // KEYS))) for key in range(KEYS)
        }
        wait_until(lambda: group.get_time_window(STREAM).lower == load.written)
        assert group.position(STREAM) == client.tail().tail


def _read(url: str, count: int) -> dict[str, list[int]]:
    """Read all events, and confirm them; return the numbers of each key in their order."""
    read: dict[str, list[int]] = defaultdict(list)
    with Reader(url, STREAM, "r") as reader:

        def is_read() -> bool:
            for event in reader.read_next(wait_ms=50):
                read[event.key].append(int(event.value))
            return sum(map(len, read.values())) >= count

        wait_until(is_read)
        reader.read_next(wait_ms=0)
    return read
