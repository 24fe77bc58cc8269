"""Controllers that start, end, die, and are started again by a supervisor."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from fastapi import routing

from controller.cluster import Right
from controller.configuration import ServeSettings
from controller.http.app import ControllerApp, create_app
from tests.simulation.choices import Choices
from tests.simulation.clocks import Errors
from tests.simulation.databases import open_disk
from tests.simulation.disk import Disk
from tests.simulation.kernel import Node, SimulatedLoop
from tests.simulation.network import Network

LEASE_MS = 1_000
"""Of every other controller; of those between, half of it."""
_TICK_S = 0.1  # as often as the server looks
_GRACE_S = 10.0


def describe_routes_once() -> None:
    """Keep what FastAPI finds about routes for each application: half of what one costs."""
    describe = routing._EffectiveRouteContext.from_api_route
    described: dict[int, Any] = {}

    def describe_once(*, original_route: Any, include_context: Any) -> Any:
        key = id(original_route)  # those of modules, which stay
        if key not in described:
            described[key] = describe(
                original_route=original_route, include_context=include_context
            )
        return described[key]

    routing._EffectiveRouteContext.from_api_route = describe_once  # type: ignore[method-assign]


class Controller:
    """One place for controllers, each of which is a process of its own."""

    def __init__(
        self, number: int, loop: SimulatedLoop, choices: Choices, disk: Disk, network: Network
    ) -> None:
        self.name = f"c{number}"
        self.url = f"http://{self.name}"
        self._loop = loop
        self._choices = choices
        self._disk = disk
        self._network = network
        self._lease_ms = LEASE_MS // (1 + number % 2)
        self.node: Node
        self.app: ControllerApp
        self.is_up = False
        self.starts = 0
        self.left_ms = 0
        """Listening time when it last left."""
        self._asked_to_end: asyncio.Event
        self._may_run = asyncio.Event()
        self._ended = asyncio.Event()
        network.places[self.name] = self  # type: ignore[assignment]

    async def supervise(self) -> None:
        while True:
            await self._may_run.wait()
            self.starts += 1
            skew_s = self._choices.between("skew", -0.2, 0.2)
            rate = self._choices.between("rate", 0.98, 1.02)
            errors = Errors(skew_s, rate)
            self.node = node = Node(f"{self.name}#{self.starts}", self._loop, errors)
            self._asked_to_end, self._ended = asyncio.Event(), asyncio.Event()
            node.on_kill += [partial(self._network.close_all, node), self._note_end]
            node.spawn(self._run(node), name="the server").add_done_callback(
                lambda _run: self._note_end()
            )
            await self._ended.wait()
            self.is_up = False
            node.kill()  # what is left of a process ends with it
            # Half of them at once, as others that were killed with them.
            await asyncio.sleep(max(0.05, self._choices.between("restart", -1.0, 1.0)))

    def start(self) -> None:
        self._may_run.set()

    def kill(self) -> None:
        if self.starts and not self._ended.is_set():
            self.node.kill()

    def end(self) -> None:
        self._asked_to_end.set()

    def stop(self) -> None:
        self._may_run.clear()
        self._asked_to_end.set()

    async def until_ended(self) -> None:
        await self._ended.wait()

    @property
    def holds(self) -> bool:
        """Whether it holds the database, and has read it back."""
        return self.is_up and self.app.process.holds

    @property
    def is_reading(self) -> bool:
        """Whether it has taken over, and reads the streams back."""
        return self.is_up and self.app.process.is_taking_over and not self.holds

    @property
    def is_certain(self) -> bool:
        """Whether it believes, by its own clock, that no other controller can have taken over."""
        return self.is_up and self.node.context.run(lambda: self.app.process.right.is_certain)

    @property
    def lease(self) -> str:
        """The id of the lease that it has, or had last; empty for none."""
        return getattr(self.app.process.right, "_id", "") if self.is_up else ""

    @property
    def is_entitled(self) -> bool:
        """Whether the database says that this controller holds it, or has lost who did.

        Nobody takes over from a row that a failover has brought back while somebody is certain.
        """
        if not self._disk.is_shared:
            return True
        ((holder,),) = self._disk.look("SELECT id FROM holder")
        return holder == self.lease or (holder == self._disk.restored and self.is_certain)

    def _note_what_is_left(self, right: Right) -> None:
        """Record the listening time at which the right is given back."""
        leave = right.leave

        async def leave_then() -> None:
            tenure = self.app.process.tenure
            if tenure is not None and tenure.parts.health.started:
                self.left_ms = tenure.parts.clocks.listening.now_ms()
            await leave()

        right.leave = leave_then  # type: ignore[method-assign]

    def _note_end(self) -> None:
        self.is_up = False
        self._ended.set()

    async def _run(self, node: Node) -> None:
        settings = ServeSettings(lease_ms=self._lease_ms, port=0)
        right = open_disk(self._disk, address=self.url, lease_ms=self._lease_ms)
        self._note_what_is_left(right)
        self.app = app = create_app(settings, right=right)
        async with _lifespan(app):
            self._loop.trace("up", node.name)
            self.is_up = True
            while not (self._asked_to_end.is_set() or app.process.failed):
                with suppress(TimeoutError):
                    async with asyncio.timeout(_TICK_S):
                        await self._asked_to_end.wait()
            self.is_up = False
            app.process.begin_to_end()
            ends = self._loop.time() + _GRACE_S
            while (calls := self._network.calls(node)) and self._loop.time() < ends:
                await asyncio.sleep(_TICK_S)
            for call in calls:  # as uvicorn does, which does not wait for them then
                call.cancel()
            self._network.close_all(node)
        self._loop.trace("down", node.name)


@asynccontextmanager
async def _lifespan(app: ControllerApp) -> AsyncIterator[None]:
    """Start and end an application as a server does."""
    ends = asyncio.Event()
    started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    is_first = True

    async def receive() -> dict[str, str]:
        nonlocal is_first
        if is_first:
            is_first = False
            return {"type": "lifespan.startup"}
        await ends.wait()
        return {"type": "lifespan.shutdown"}

    async def send(message: dict[str, str]) -> None:
        if message["type"] == "lifespan.startup.complete":
            started.set_result(None)
        elif message["type"].endswith("failed"):
            raise AssertionError(message)

    scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}
    running = asyncio.ensure_future(app(scope, receive, send))  # type: ignore[arg-type]
    await asyncio.wait({running, started}, return_when=asyncio.FIRST_COMPLETED)
    yield
    ends.set()
    await running
