"""Streams and reader groups move between controllers, and nobody who uses them is misled."""

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

import httpx
import pytest

from tests.patience import until
from tests.server import Api
from tests.simulation.quiet import QuietWorld

NOW = 1_700_000_000_000

STREAMS = ["log/a", "log/b", "log/c", "log/d"]
GROUPS = ["one", "two", "three", "four"]
TRY_AGAIN = {502, 503}
WAIT_MS = 500


class Users:
    """Who uses a service of several controllers, until they are told to stop."""

    def __init__(self, clients: list[httpx.AsyncClient]) -> None:
        self.clients = clients
        self.chance = random.Random(8470)
        self.stopped = self.all_written = False
        self.rounds = 0

    async def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Ask one controller after another until one does it, or refuses."""
        while True:
            client = self.chance.choice(self.clients)
            answer = await client.request(method, path, **more)
            if answer.status_code not in TRY_AGAIN:
                return answer
            await asyncio.sleep(0.02)

    async def write(self, stream: str) -> int:
        """Append events and note times for ever; tells the last of these times."""
        noted = 0
        while not self.stopped:
            noted += 1
            answer = await self.ask(
                "POST",
                f"/v1/streams/{stream}/events?writer=w&note_time={NOW + noted}",
                content=f'{{"key": "k", "event_time": {NOW + noted}, "value": "x"}}',
                headers={"content-type": "application/x-ndjson"},
            )
            assert answer.status_code == 200, answer.text
            await asyncio.sleep(0.2)
        return noted

    async def follow(self, client: httpx.AsyncClient, stream: str) -> int:
        """Follow the marks by long polls at one controller; tells the newest watermark."""
        revision, watermark, idle = 0, 0, 0
        while not (self.all_written and idle):
            query = {"after": revision, "wait_ms": WAIT_MS, "limit": 1_000}
            answer = await client.get(f"/v1/streams/{stream}/marks", params=query)
            if answer.status_code in TRY_AGAIN:
                await asyncio.sleep(0.02)
                continue
            marks = answer.raise_for_status().json()["marks"]
            idle = not marks
            for mark in marks:
                assert mark["revision"] == revision + 1
                revision, watermark = mark["revision"], mark["lower"]
        return watermark

    async def make_groups(self, name: str) -> None:
        """Make a reader group, read with it and delete it, again and again."""
        path = f"/v1/reader-groups/tests/{name}"
        while not self.stopped:
            created = await self.ask("PUT", path, json={"streams": STREAMS})
            assert created.status_code in {200, 201}, created.text
            joined = await self.ask("POST", f"{path}/readers/r")
            assert joined.status_code == 200, joined.text
            await asyncio.sleep(1.5)  # long enough to be moved
            state = await self.ask("GET", f"{path}/state")
            assert set(state.json()["readers"]) == {"r"}
            for stream in STREAMS:
                window = await self.ask("GET", f"{path}/time-window", params={"stream": stream})
                assert window.raise_for_status().json()["lower"] is None
            deleted = await self.ask("DELETE", path)
            assert deleted.status_code in {204, 404}, deleted.text
            self.rounds += 1
            await asyncio.sleep(0.1)

    async def make_more_groups(self) -> None:
        """Wait until more of them were made and deleted."""
        wanted = self.rounds + 8
        await until(lambda: self.rounds >= wanted)


async def _use(world: QuietWorld) -> None:
    third = world.controllers[2]
    clients = [world.client(one) for one in world.controllers[:2]]
    users = Users(clients)
    work: list[Coroutine[Any, Any, Any]] = [
        *(users.write(stream) for stream in STREAMS),
        *(users.follow(client, stream) for client in clients for stream in STREAMS),
        *(users.make_groups(name) for name in GROUPS),
    ]
    async with asyncio.TaskGroup() as tasks:
        begun = [tasks.create_task(one) for one in work]
        third.start()
        await until(lambda: sorted(world.held()) == [0, 1, 1, 2])
        await users.make_more_groups()
        third.stop()
        await until(lambda: world.held() == [2, 2, 0])
        await users.make_more_groups()
        users.stopped = True
        await asyncio.wait(begun[: len(STREAMS)])
        users.all_written = True
    written = [NOW + task.result() for task in begun[: len(STREAMS)]]
    followed = [task.result() for task in begun[len(STREAMS) : -len(GROUPS)]]
    assert followed == written * len(clients)
    listed = await users.ask("GET", "/v1/reader-groups")
    assert listed.json()["groups"] == []


def _create(world: QuietWorld, **settings: object) -> None:
    """Create the streams, of which two controllers have two each."""
    for stream in STREAMS:
        with Api(world.controllers[0].url, stream, transport=world.transport()) as api:
            api.create(mark_resolution_ms=0, **settings)
    world.until(lambda: world.held() == [2, 2, 0])


@pytest.mark.parametrize("world", [3], indirect=True)
def test_readers_groups_and_long_polls_go_on_wherever_streams_move(world: QuietWorld) -> None:
    world.kill(world.controllers[2])
    _create(world, log="embedded")
    world.run(_use(world))


@pytest.mark.parametrize("world", [2], indirect=True)
def test_what_moved_and_was_deleted_is_unknown_everywhere_at_once(world: QuietWorld) -> None:
    _create(world)
    first, second = world.controllers
    world.kill(second)
    world.until(lambda: world.held() == [4, 0])
    world.start(second)
    world.until(lambda: world.held() == [2, 2, 0])
    for stream in STREAMS:
        assert world.run(world.client(second).delete(f"/v1/streams/{stream}")).is_success
        answer = world.run(world.client(first).get(f"/v1/streams/{stream}"))
        assert answer.status_code == 404
