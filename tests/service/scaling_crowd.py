"""Writers and readers in processes of their own, while a test scales their stream and kills them."""

import json
import os
from bisect import bisect_left
from collections import Counter, defaultdict
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple, Self

from reader_client import StreamClient
from tests.nursery import Fork
from tests.patience import wait_until
from tidegauge.lattice import down_set
from tidegauge.marks import Mark
from tidegauge.topology import Position

_WRITER = """
import os, time
from pathlib import Path
from writer_client import Writer

url, stream, name, folder = os.environ["CROWD"].split()
stop, number, slow = Path(folder, "stop"), 0, Path(folder, "slow")
now = lambda: time.time_ns() // 1_000_000
with Writer(url, stream, name, first_time=now()) as writer:
    while not stop.exists():
        at = now()
        for key in range(3):
            writer.write(str(number), key=f"{name}-{key}", event_time=at)
        writer.note_time(at)
        number += 1
        time.sleep(0.3 if slow.exists() else 0.02)
    writer.leave()
Path(folder, f"{name}.written").write_text(str(number))
"""
_READER = """
import os, time
from pathlib import Path
from reader_client import Reader

url, group, name, folder = os.environ["CROWD"].split()
reader = Reader(url, group, name)
with Path(folder, f"{name}.read").open("w", buffering=1) as file:
    while True:
        events = reader.read_next(wait_ms=200)
        if events:
            first, last = events[0], events[-1]
            print(time.monotonic_ns(), first.segment, first.offset, last.offset, file=file)
"""
_QUERY = """
import json, os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
from pathlib import Path
from pyspark.sql import SparkSession, functions as F
from spark_source import read_stream
from tests.quick_spark import quick_environment

os.environ.update(quick_environment())
url, stream, name, folder = os.environ["CROWD"].split()
settings = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.warehouse.dir": f"{folder}/warehouse",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()

def store(rows, batch):
    found = [[row.start, row.count_] for row in rows.collect()]
    Path(folder, f"{batch}.windows").write_text(json.dumps(found))

counted = (
    read_stream(spark, url=url, stream=stream, operators="windows")
    .groupBy(F.window("event_time", "1 second"))
    .agg(F.count("*").alias("count_"))
    .select(F.unix_millis("window.start").alias("start"), "count_")
)
query = counted.writeStream.option("checkpointLocation", f"{folder}/checkpoint")
query = query.outputMode("append").foreachBatch(store).start()
dropped = lambda progress: sum(one["numRowsDroppedByWatermark"] for one in progress["stateOperators"])
seen = {}
while not Path(folder, "enough").exists():
    if query.awaitTermination(0.1):
        raise query.exception() or AssertionError("the query ended")
    seen |= {one["batchId"]: dropped(one) for one in query.recentProgress}
query.stop()
Path(folder, "dropped").write_text(str(sum(seen.values())))
"""


class Seen(NamedTuple):
    """A time window of the group, when it was told, and where the group and the stream stood."""

    lower: int
    position: Position
    watermark: int
    at: int
    """By the monotonic clock, ns."""


class Event(NamedTuple):
    """An event in the log."""

    segment: int
    offset: int
    key: str
    number: int
    time: int


class Crowd:
    """Some writers and readers of a stream, and what the service told of its group meanwhile."""

    def __init__(self, url: str, stream: str, folder: Path) -> None:
        self.url = url
        self.stream = stream
        self.folder = folder
        self._writers: list[Fork] = []
        self._readers: list[Fork] = []
        self._queries: list[Fork] = []
        self._started = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._writers + self._readers + self._queries:
            process.kill()

    def start_queries(self, count: int) -> None:
        """Let Spark count the events of each second, beside the readers."""
        self._queries += [self._fork(_QUERY, f"q{number}") for number in range(count)]

    def slow_down(self, *, slow: bool) -> None:
        """Let every writer write a tenth as often, or as often as ever."""
        flag = Path(self.folder, "slow")
        flag.touch() if slow else flag.unlink(missing_ok=True)

    def start_writers(self, count: int) -> None:
        """Let writers write until they are told to stop."""
        self._writers += [self._fork(_WRITER, f"w{number}") for number in range(count)]

    def start_reader(self) -> None:
        """Let one more reader join the group."""
        self._started += 1
        self._readers.append(self._fork(_READER, f"r{self._started}"))

    def kill_reader(self, which: int) -> None:
        """End a reader as a power cut would, and let another join."""
        self._readers.pop(which % len(self._readers)).kill()
        self.start_reader()

    def check(self) -> None:
        """See that nobody ended who should not."""
        for process in self._writers + self._readers + self._queries:
            assert process.poll() in {None, 0}, self._log.read_text()

    def stop_writers(self) -> dict[str, int]:
        """Let writers end; tell how many numbers each wrote to each of its keys."""
        Path(self.folder, "stop").touch()
        for process in self._writers:
            assert process.wait(timeout=60) == 0, self._log.read_text()
        files = self.folder.glob("*.written")
        return {f"{one.stem}-{key}": int(one.read_text()) for one in files for key in range(3)}

    def check_queries(self, events: list[Event]) -> None:
        """See that queries over the stream, which is sealed, find the truth, and drop nothing."""
        if not self._queries:
            return
        truth = Counter(event.time // 1_000 * 1_000 for event in events)

        def is_counted() -> bool:
            self.check()
            return self._counted().keys() >= truth.keys()

        wait_until(is_counted)
        Path(self.folder, "enough").touch()
        for process in self._queries:
            assert process.wait(timeout=60) == 0, self._log.read_text()
        assert self._counted() == truth
        assert Path(self.folder, "dropped").read_text() == "0"

    def _counted(self) -> Counter[int]:
        found: Counter[int] = Counter()
        for file in self.folder.glob("*.windows"):
            for start, count in json.loads(file.read_text() or "[]"):
                found[start] += count
        return found

    def deliveries(self) -> dict[tuple[int, int], int]:
        """Tell when each event, by segment and offset, was first returned by a reader."""
        first: dict[tuple[int, int], int] = {}
        for file in self.folder.glob("*.read"):
            for line in file.read_text().splitlines(keepends=True):
                if line.endswith("\n"):  # else it was killed within
                    at, segment, start, end = map(int, line.split())
                    for offset in range(start, end + 1):
                        place = segment, offset
                        first[place] = min(at, first.get(place, at))
        return first

    @property
    def _log(self) -> Path:
        return self.folder / "crowd.log"

    def _fork(self, code: str, name: str) -> Fork:
        words = " ".join([self.url, self.stream, name, str(self.folder)])
        return Fork(code, {**os.environ, "CROWD": words}, self._log)


def read_log(client: StreamClient) -> list[Event]:
    """Read every event of a stream."""
    found = []
    for segment, end in client.tail().tail.items():
        for events in client.read(segment, 0, end):
            rows = zip(*(column.to_pylist() for column in events.batch.columns), strict=True)
            for offset, (key, time, value, *_) in enumerate(rows, events.first_offset):
                found.append(Event(segment, offset, key, int(value), time))
    return found


def read_marks(client: StreamClient) -> list[Mark]:
    """Read every mark of a stream."""
    found: list[Mark] = []
    while page := client.marks(after=found[-1].revision if found else 0):
        found += page
    return found


def check_each_key_once_and_in_order(
    events: list[Event], first: dict[tuple[int, int], int], written: dict[str, int]
) -> None:
    """Every number is in the log once, and came to the readers in order."""
    by_key: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        by_key[event.key].append(event)
    assert {key: len(found) for key, found in by_key.items()} == written
    for key, found in by_key.items():
        found.sort(key=lambda one: (first[one.segment, one.offset], one.segment, one.offset))
        assert [one.number for one in found] == list(range(written[key])), key


def check_windows(
    seen: list[Seen], events: list[Event], first: dict[tuple[int, int], int]
) -> None:
    """While the group's window told a time, every event below it had come to a reader.

    The time only rose: readers that died gave their segments back where they had confirmed.
    """
    lowers = [one.lower for one in seen]
    assert lowers == sorted(lowers)
    in_order = sorted(events, key=lambda event: event.time)
    times = [event.time for event in in_order]
    read = [first[event.segment, event.offset] for event in in_order]
    latest = [0, *accumulate(read, max)]
    for one in seen:
        assert latest[bisect_left(times, one.lower)] <= one.at, one


def check_nothing_is_late(client: StreamClient, events: list[Event], seen: list[Seen]) -> None:
    """No mark, and no window, tells a time below which an event lies beyond its position."""
    topology = client.topology()
    told = [(one.lower, one.cut) for one in read_marks(client)]
    least: dict[int, list[int]] = defaultdict(list)
    """For each segment and offset the least time from there to the end."""
    for event in reversed(events):
        later = least[event.segment]
        later.append(min([event.time, *later[-1:]]))
    for lower, position in told + [(one.lower, one.position) for one in seen]:
        counts = down_set(topology, position)
        for segment, times in least.items():
            left = len(times) - counts.get(segment, 0)
            assert left == 0 or times[left - 1] >= lower, (lower, segment, position)
