"""A day: who takes part, who is killed, and when it is over."""

import asyncio
import random
import shutil
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from reader_client import AsyncReaderGroup
from tests.broker import Broker
from tests.kafka import create_topic
from tests.postgres import running_cluster
from tests.service.controllers import Controllers, controllers
from tests.soak_day.driver import WINDOW_S
from tests.soak_day.members import Client, Controller, Kill, kills
from tests.soak_day.promises import BrokenPromiseError, Group
from tests.soak_day.readings import Readings
from tests.soak_day.roles import KEYS, wall_ms
from tests.soak_day.trend import SHORTEST_S
from tests.soak_day.watching import AUDIT, Stream, look, watch_group

_READERS = "soak/readers"
_PARTITIONS = 3
_CONTROLLERS = 3
_OF_EACH = 3
"""Writers, producers and readers. The first of each, and of controllers, is never killed."""
_MOST_GROWING = 6
_KEPT_MS = 300_000
"""Of events; marks and records are kept twice as long. So the disk is bounded."""
_LATE_LINES_S = 5
_CATCH_UP_S = 300
_SIZES = (
    "SELECT relname, pg_total_relation_size(oid) FROM pg_class "
    "WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
)


@dataclass(frozen=True)
class Options:
    """How long a day lasts, how many events a second there are, and how often somebody dies."""

    seconds: float
    rate: float
    kill_every_s: float
    seed: int
    folder: Path


def _is_settled(member: Client | Controller) -> bool:
    """Return whether it ran long enough to be killed, as a driver that has done a batch."""
    settled_s = 45 if member.name.startswith("driver") else 5
    return time.monotonic() - member.started > settled_s


class Day:
    """Everybody who takes part, until it is over or a promise is broken."""

    def __init__(self, options: Options) -> None:
        self.over = asyncio.Event()
        self.broken: list[str] = []
        self.readings = Readings(options.folder)
        self._options = options
        self._work = options.folder / "work"
        self._work.mkdir(parents=True)
        self._members: list[Client | Controller] = []
        self._next = defaultdict[str, list[int]](lambda: [0, 0])
        """From which number and time on a writer goes on."""
        self._group = Group()
        self._log = Stream("soak/events", "the query of the embedded log")
        self._topic = Stream("soak/topic", "the query that follows a topic")
        self._begun = time.monotonic()
        self._database: Controllers
        self._urls: list[str]
        self._brokers: str

    async def run(self) -> None:
        """Let it happen; whatever is wrong is told by ``broken``."""
        try:
            async with self._service(), asyncio.TaskGroup() as tasks:
                await self._start_clients()
                self._begun = time.monotonic()
                busy = [tasks.create_task(one) for one in (self._kill(), self._scale())]
                watching = [
                    self._log.read_log(self._urls[2]),
                    self._topic.read_topic(self._brokers, _PARTITIONS),
                    self._log.watch_marks(self._urls, self.readings),
                    self._topic.watch_marks(self._urls, self.readings),
                    watch_group(self._urls[1], _READERS, self._log.name, self._group),
                    self._check(),
                    self._measure(),
                ]
                watches = [tasks.create_task(one) for one in watching]
                await self._is_over_in(self._options.seconds)
                self.over.set()
                await asyncio.gather(*busy)
                await self._end()
                for one in watches:
                    one.cancel()
        except* (Exception, pytest.fail.Exception) as errors:  # noqa: BLE001 (all are told)
            self.broken += [f"{type(one).__name__}: {one}" for one in errors.exceptions]
        if not self.broken:
            shutil.rmtree(self._work)

    @asynccontextmanager
    async def _service(self) -> AsyncIterator[None]:
        # The prefix starts a fresh Python, which shares no memory as a fork does.
        settings: dict[str, Any] = {
            "lease_ms": 3_000,
            "log_level": "warning",
            "prefix": ("env",),
        }
        with (
            running_cluster() as cluster,
            Broker(self._work / "broker") as broker,
            controllers(cluster, self._work, _CONTROLLERS, **settings) as self._database,
        ):
            self._brokers = broker.bootstrap
            servers = self._database.servers
            self._urls = [one.url for one in servers]
            for number, server in enumerate(servers):
                self._members.append(Controller(f"controller-{number}", server))
            try:
                yield
            finally:
                killing = [one.kill() for one in self._members]
                await asyncio.gather(*killing, return_exceptions=True)

    async def _start_clients(self) -> None:
        topic, kept_ms = self._topic.name.partition("/")[2], {"retention_ms": 2 * _KEPT_MS}
        create_topic(self._brokers, topic, partitions=_PARTITIONS, segment_ms=60_000, **kept_ms)
        both: dict[str, Any] = {"mark_retention_ms": 2 * _KEPT_MS, "min_writers": _OF_EACH}
        async with self._log.client(self._urls[0]) as log:
            await log.create(segments=2, retention={"age_ms": _KEPT_MS}, **both)
        async with self._topic.client(self._urls[0]) as external:
            await external.create(log="external", segments=_PARTITIONS, **both)
        for name in (_READERS, AUDIT):
            async with aclosing(AsyncReaderGroup(self._urls[0], name)) as group:
                # A reader talks to one controller, which may be away for longer than the default.
                await group.create([self._log.name], dead_after_ms=60_000)
        for number in range(_OF_EACH):
            self._add("writer", number, self._log)
            self._add("producer", number, self._topic)
            self._add("reader", number, self._log)
        self._add("driver", 0, self._log)
        self._add("driver", 1, self._topic)
        for one in self._members[_CONTROLLERS:]:
            await one.start()

    def _add(self, role: str, number: int, stream: Stream) -> None:
        name = f"{role}-{number}"
        url = self._urls[(number + len(role)) % _CONTROLLERS]
        kind = "embedded" if stream is self._log else "follow"
        every_s = 2 * _OF_EACH * KEYS / self._options.rate

        def arguments() -> list[str]:
            if role == "driver":
                checkpoint = str(self._work / name / "checkpoint")
                words = [kind, url, stream.name, self._brokers, checkpoint]
                return ["-m", "tests.soak_day.driver", *words]
            words = [role, url, _READERS if role == "reader" else stream.name, name]
            words += [self._brokers] * (role == "producer")
            words += [*map(str, self._next[name]), str(every_s)] * (role != "reader")
            return ["-m", "tests.soak_day.roles", *words]

        hear = partial(self._hear, name, stream)
        self._members.append(Client(name, self._work, arguments, hear))

    def _hear(self, name: str, stream: Stream, word: str, said: list[Any]) -> None:
        """Take what a client tells."""
        note = self.readings.note
        if word == "tries":
            self._next[name] = said
        elif word == "stored":
            first, end, took_ms = said
            for key in range(KEYS):
                stream.ledger.acknowledge(f"{name}.{key}", range(first, end))
            note("latency, ms", f"flush of {name.partition('-')[0]}s", took_ms)
        elif word == "returned":
            *page, delay_ms = said
            self._group.returned(*page)
            note("latency, ms", "written to read", delay_ms)
        elif word == "windows":
            batch, rows = said
            stream.windows.result(batch, [(start, count) for start, count in rows])
            for start, _ in rows:
                note("delay, ms", f"result of {name}", wall_ms() - start - WINDOW_S * 1_000)
        elif word == "heap":
            note("memory, MB", f"heap of {name}", said[0])

    async def _kill(self) -> None:
        """Kill and start again, one after the other."""
        for kill in kills(self._options.seed, self._options.kill_every_s):
            if await self._is_over_in(kill.wait_s):
                return
            if victim := self._victim(kill):
                self.readings.kills.append((self._at(), victim.name))
                await victim.kill()
                await asyncio.sleep(kill.away_s)
                await victim.start()

    def _victim(self, kill: Kill) -> Client | Controller | None:
        """Choose one that may be killed now.

        Memory of a driver is judged when none is killed any more. A driver that loads its query
        waits for its controller for 5 s only, so no controller is killed meanwhile.
        """
        mine = self._of(kill.kind)
        if kill.kind == "driver":
            judged = self._options.seconds >= SHORTEST_S
            mine = [] if judged and self._at() > self._options.seconds / 4 else mine
        else:
            del mine[0]
        if kill.kind == "controller" and not all(map(_is_settled, self._of("driver"))):
            return None
        mine = [one for one in mine if _is_settled(one)]
        return mine[int(kill.which * len(mine))] if mine else None

    def _of(self, kind: str) -> list[Client | Controller]:
        return [one for one in self._members if one.name.startswith(kind)]

    async def _scale(self) -> None:
        """Split a segment or merge two neighbours, now and then."""
        chance = random.Random(self._options.seed)
        async with self._log.client(self._urls[0]) as client:
            while not await self._is_over_in(2 * self._options.kill_every_s):
                topology = await client.topology()
                ranges = {one: topology[one].key_range or (0, 0) for one in topology.unsealed}
                growing = sorted(ranges, key=lambda one: ranges[one])
                may_split = len(growing) < _MOST_GROWING
                if len(growing) == 1 or (may_split and chance.random() < 0.5):
                    await client.split(chance.choice(growing))
                else:
                    at = chance.randrange(len(growing) - 1)
                    await client.merge(growing[at : at + 2])

    async def _check(self) -> None:
        """Raise what is broken."""
        while True:
            for one in self._members:
                one.check()
            self._group.settle(time.monotonic() - _LATE_LINES_S)
            for stream in (self._log, self._topic):
                stream.windows.check(stream.timeline.complete_below())
            await asyncio.sleep(1)

    async def _measure(self) -> None:
        """Take a sample each minute, or more often in a short run, and tell it in a line."""
        folders = {one: self._work / one for one in ("broker", "driver-0", "driver-1")}
        while True:
            await asyncio.sleep(max(2.0, min(60.0, self._options.seconds / 60)))
            tables = await asyncio.to_thread(self._database.query, _SIZES)
            await asyncio.to_thread(look, self._members, tables, folders, self.readings)
            self.readings.sample(self._at())
            print(self.told(), flush=True)  # noqa: T201

    async def _end(self) -> None:
        """Let nobody write any more, and wait until all that is stored was read."""
        for one in self._members:
            if one.name.startswith(("writer", "producer")):
                await one.kill()
        deadline = time.monotonic() + _CATCH_UP_S
        while unread := self._log.ledger.unread() | self._topic.ledger.unread():
            if time.monotonic() > deadline:
                msg = f"acknowledged, and not read: {unread}"
                raise BrokenPromiseError(msg)
            await asyncio.sleep(0.5)

    def told(self) -> str:
        """Tell how far it has come."""
        return (
            f"{self._at() / 3_600:.3f} h: {self._log.ledger.read_count:,} events and "
            f"{self._topic.ledger.read_count:,} records checked, {self._log.windows.checked} and "
            f"{self._topic.windows.checked} windows, {len(self.readings.kills)} kills, "
            f"{len(self._log.topology.segments)} segments"
        )

    def _at(self) -> float:
        return time.monotonic() - self._begun

    async def _is_over_in(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            await asyncio.wait_for(self.over.wait(), seconds)
        return self.over.is_set()
