"""Who watches a day from outside, and takes what the service says to the promises."""

import asyncio
import time
from contextlib import AsyncExitStack, aclosing, suppress
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from reader_client import AsyncReader, AsyncReaderGroup, AsyncStreamClient
from tests.soak_day.driver import WINDOW_S
from tests.soak_day.members import Client, Controller
from tests.soak_day.promises import Group, Ledger, Timeline, Windows
from tests.soak_day.readings import Readings
from tests.soak_day.roles import PATIENCE, wall_ms
from tidegauge.lattice import down_set
from tidegauge.topology import Topology

AUDIT = "soak/audit"


class Stream:
    """What is known of a stream from its marks, and from its log, which is read as a whole."""

    def __init__(self, name: str, query: str) -> None:
        self.name = name
        self.ledger = Ledger()
        self.timeline = Timeline(name)
        self.windows = Windows(query, WINDOW_S * 1_000)
        self.topology = Topology([])

    def client(self, url: str) -> aclosing[AsyncStreamClient]:
        """Make a client of it for an ``async with`` block."""
        return aclosing(AsyncStreamClient(url, self.name, retry_for=PATIENCE))

    async def read_log(self, url: str) -> None:
        """Read every event, as the only one of a group, which is never killed."""
        async with AsyncReader(url, AUDIT, "audit", retry_for=PATIENCE) as reader:
            while True:
                for one in await reader.read_next():
                    place = one.segment, one.offset, one.key
                    self._event(*place, int(one.value), one.event_time or 0)

    async def read_topic(self, brokers: str, partitions: int) -> None:
        """Read every record of the topic."""
        settings = {"bootstrap.servers": brokers, "group.id": "audit", "log_level": 0}
        consumer = Consumer(settings | {"enable.auto.commit": False})
        topic = self.name.partition("/")[2]
        numbers = range(partitions)
        consumer.assign([TopicPartition(topic, one, OFFSET_BEGINNING) for one in numbers])
        while True:
            record: Any
            for record in await asyncio.to_thread(consumer.consume, 1_000, 1.0):
                assert record.error() is None, record.error()
                place = record.partition(), record.offset(), record.key().decode()
                self._event(*place, int(record.value()), record.timestamp()[1])

    def _event(self, segment: int, offset: int, key: str, number: int, time_ms: int) -> None:
        self.ledger.read(key, number)
        self.timeline.event(segment, offset, time_ms)
        self.windows.event(time_ms)

    async def watch_marks(self, urls: list[str], readings: Readings) -> None:
        """Ask the controllers in turn for marks, and where the watermark stands."""
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(self.client(url)) for url in urls]
            while True:
                for client in clients:
                    await self._take_marks(client)
                    watermark = (await client.explain()).watermark
                    self.timeline.told(watermark)
                    if watermark is not None:
                        name, delay_ms = f"watermark of {self.name}", wall_ms() - watermark
                        readings.note("delay, ms", name, delay_ms)

    async def _take_marks(self, client: AsyncStreamClient) -> None:
        after = self.timeline.revision
        for mark in await client.marks(after=after, wait_ms=1_000):
            if not mark.cut.keys() <= self.topology.segments.keys():
                self.topology = await client.topology()
            self.timeline.mark(mark.revision, mark.lower, down_set(self.topology, mark.cut))


async def watch_group(url: str, name: str, stream: str, group: Group) -> None:
    """Ask again and again how far a group has come."""
    async with aclosing(AsyncReaderGroup(url, name, retry_for=PATIENCE)) as client:
        while True:
            window = await client.get_time_window(stream)
            if window.lower is not None:
                group.window(time.monotonic(), window.lower)
            await asyncio.sleep(1)


def look(
    members: list[Client | Controller],
    tables: list[tuple[Any, ...]],
    folders: dict[str, Path],
    readings: Readings,
) -> None:
    """Measure what processes hold, and what lies on the disk."""
    for one in members:
        with suppress(psutil.Error):  # it is being killed
            if one.pid is not None:
                process = psutil.Process(one.pid)
                family = [process, *process.children(recursive=True)]
                memory = sum(it.memory_info().rss for it in family)
                readings.note("memory, MB", one.name, memory / 1e6)
                readings.note("open files", one.name, sum(it.num_fds() for it in family))
    for table, size in tables:
        readings.note("tables, MB", table, size / 1e6)
    for name, folder in folders.items():
        readings.note("folders, MB", name, _size(folder) / 1e6)


def _size(folder: Path) -> int:
    """Add up the files of a folder, of which some may vanish meanwhile."""
    total = 0
    for one in folder.rglob("*"):
        with suppress(OSError):
            total += one.stat().st_size
    return total
