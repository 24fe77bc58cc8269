"""Load from many writers on several controllers: what was accepted, and what was seen of it."""

import asyncio
import random
import time
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import httpx

from tests.patience import until
from tests.service.controllers import NOW

STREAMS = ["load/a", "load/b", "load/c", "load/d"]
HELD = "load/held"
"""A stream whose watermark one more writer holds, who says nothing after its first report."""
SILENT = "silent"
WRITERS = [f"w{number}" for number in range(4)]
"""Of each stream."""
LOST = (httpx.TransportError,)
_WAIT_MS = 30_000


class Report(NamedTuple):
    time: int
    position: dict[int, int]
    accepted_s: float


class Seen(NamedTuple):
    mark: dict[str, Any]
    at_s: float


@dataclass
class Load:
    """What was accepted, and the marks that were seen meanwhile."""

    chance: random.Random
    clients: list[httpx.AsyncClient]
    reports: dict[str, dict[str, list[Report]]] = field(
        default_factory=lambda: {stream: {} for stream in [*STREAMS, HELD]}
    )
    seen: dict[str, dict[int, Seen]] = field(
        default_factory=lambda: {stream: {} for stream in STREAMS}
    )
    incarnations: dict[str, int] = field(default_factory=dict)
    stopped: bool = False

    async def until_accepted(self, path: str, body: dict[str, Any]) -> Any:
        """Ask one controller after another until one says that it is done."""
        return await self._until_answered("POST", path, json=body)

    async def ask(self, path: str) -> Any:
        """Ask one controller after another until one answers."""
        return await self._until_answered("GET", path)

    async def _until_answered(self, method: str, path: str, **more: Any) -> Any:
        while True:
            try:
                answer = await self.chance.choice(self.clients).request(method, path, **more)
            except LOST:
                answer = None
            if answer is not None and answer.is_success:
                return answer.json()
            assert answer is None or answer.status_code in {307, 502, 503}, answer.text
            await asyncio.sleep(0.02)

    async def start(self) -> None:
        """Let all writers be known."""
        for stream in self.reports:
            for writer in WRITERS:
                await self._report(stream, writer, NOW, {})
        path = f"/v1/streams/{HELD}/writers/{SILENT}/note-time"
        await self.until_accepted(path, {"time": NOW, "position": {}})

    async def _report(
        self, stream: str, writer: str, noted: int, position: dict[int, int]
    ) -> None:
        body = {"time": noted, "position": {str(one): at for one, at in position.items()}}
        if self.chance.random() < 0.2:
            await self._until_all_are_accepted({"stream": stream, "writer": writer, **body})
        else:
            await self.until_accepted(f"/v1/streams/{stream}/writers/{writer}/note-time", body)
        report = Report(noted, position, time.monotonic())
        self.reports[stream].setdefault(writer, []).append(report)

    async def _until_all_are_accepted(self, *reports: dict[str, Any]) -> None:
        while True:
            answer = await self.until_accepted("/v1/note-times", {"reports": reports})
            statuses = {one["status"] for one in answer["results"]}
            if statuses == {200}:
                return
            assert statuses <= {200, 502, 503}, answer

    async def write(self, stream: str, writer: str) -> None:
        """Report later times and further positions for ever, each until it is accepted."""
        reached = {0: 0, 1: 0}
        noted = NOW
        while not self.stopped:
            noted += self.chance.randrange(1, 200)
            partition = self.chance.randrange(2)
            reached[partition] += self.chance.randrange(1, 9)
            await self._report(stream, writer, noted, {partition: reached[partition]})
            await asyncio.sleep(self.chance.uniform(0.03, 0.12))

    async def register(self, writer: str) -> None:
        """Register for ever; every answer tells a higher incarnation than the one before."""
        path = f"/v1/streams/load/restarts/writers/{writer}/register"
        while not self.stopped:
            answer = await self.until_accepted(path, {})
            assert answer["incarnation"] > self.incarnations.get(writer, 0)
            self.incarnations[writer] = answer["incarnation"]
            await asyncio.sleep(self.chance.uniform(0.02, 0.1))

    async def watch(self, stream: str) -> None:
        """Follow the marks by long polls, as a reader does, now here and now there, for ever."""
        seen = self.seen[stream]
        while True:
            query = f"after={max(seen, default=0)}&wait_ms={_WAIT_MS}"
            answer = await self.ask(f"/v1/streams/{stream}/marks?{query}")
            for mark in answer["marks"]:
                first = seen.setdefault(mark["revision"], Seen(mark, time.monotonic()))
                assert first.mark == mark

    def accepted(self) -> list[int]:
        """Count the reports that were accepted, of each writer."""
        return [len(one) for writers in self.reports.values() for one in writers.values()]

    async def until_all_go_on(self) -> None:
        """Wait until each writer had a report accepted that it made from now on."""
        # One may have been on its way; the next was made afterwards.
        wanted = [count + 2 for count in self.accepted()]
        await until(lambda: all(map(int.__ge__, self.accepted(), wanted)))

    async def until_all_is_seen(self) -> None:
        """Wait until the marks of all that was accepted were seen."""
        await until(lambda: all(map(self._is_seen, STREAMS)))

    def _is_seen(self, stream: str) -> bool:
        seen = self.seen[stream]
        least = min(one[-1].time for one in self.reports[stream].values())
        return bool(seen) and int(seen[max(seen)].mark["lower"]) >= least

    def longest_silence_s(self) -> float:
        """Tell the longest time in which a stream took no report."""
        return max(map(_longest_silence_s, self.reports.values()))

    def longest_delay_s(self) -> float:
        """Tell how long after the report that decided about it a mark was seen, at the most."""
        return max(
            one.at_s - _decided_s(self.reports[stream], one.mark["lower"])
            for stream, seen in self.seen.items()
            for one in seen.values()
        )


def _longest_silence_s(reports: dict[str, list[Report]]) -> float:
    times = sorted(one.accepted_s for many in reports.values() for one in many)
    return max(later - one for one, later in pairwise(times))


def _decided_s(reports: dict[str, list[Report]], lower: int) -> float:
    return max(
        next(one.accepted_s for one in many if one.time >= lower) for many in reports.values()
    )
