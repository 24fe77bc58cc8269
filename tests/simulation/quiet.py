"""A world for tests, in which nothing fails but what a test lets fail, and waiting costs nothing.

Its time passes only while a test waits: for an answer, for a coroutine, or by ``time.sleep``. So
tests that ask by HTTP may be as they are for a server. Unlike a seed, they run in the process of
all tests, which lends it the clocks.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import httpx

from tests.simulation import clocks
from tests.simulation.choices import Choices
from tests.simulation.cluster import Controller
from tests.simulation.kernel import Node
from tests.simulation.run import Verdict, Wanted, staged
from tests.simulation.world import World

_T = TypeVar("_T")


class QuietWorld:
    """Some controllers over one database, which run; the first one holds it."""

    def __init__(self, world: World) -> None:
        self.controllers = world.controllers
        self.disk = world.disk
        self.network = world.network
        self._loop = world.loop
        self._test = Node("the test", world.loop)
        self.run(world.start())
        holder = self.holder
        self.controllers.sort(key=lambda one: one is not holder)

    def begin(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Let something happen while time passes."""
        return self._test.spawn(work)

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Let time pass until something is done."""
        return self.wait(self.begin(work))

    def wait(self, task: asyncio.Task[_T]) -> _T:
        """Let time pass until what was begun is done."""
        return self._loop.run_until_complete(task)

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.run(asyncio.sleep(seconds))

    def until(self, condition: Callable[[], bool]) -> None:
        """Let time pass until something is true; a look is dearer than the time between two."""
        for _ in range(600):
            if condition():
                return
            self.sleep(0.1)
        msg = "it did not happen within a minute"
        raise AssertionError(msg)

    def client(self, controller: Controller) -> httpx.AsyncClient:
        """Make a client for coroutines."""
        return httpx.AsyncClient(transport=self.network, base_url=controller.url, timeout=60)

    def transport(self) -> httpx.BaseTransport:
        """Make what a client asks that is no coroutine."""
        return _Waiting(self)

    def kill(self, controller: Controller) -> None:
        """Kill a controller, which stays down until it is started."""
        controller.stop()
        controller.kill()
        self.sleep(2)

    def start(self, controller: Controller) -> None:
        """Start a controller that is down, and wait until it holds the database, or another one does."""
        controller.start()
        self.until(lambda: controller.is_up)
        assert self.holder

    def refuse_for(self, seconds: float) -> None:
        """Let the database refuse every change for a while."""
        self.disk.refuse_for(seconds)

    @property
    def holder(self) -> Controller:
        """The one that holds the database; time passes until there is one."""
        self.until(lambda: any(one.holds for one in self.controllers))
        return next(one for one in self.controllers if one.holds)


class _Waiting(httpx.BaseTransport):
    """Lets time pass until the answer is there."""

    def __init__(self, world: QuietWorld) -> None:
        self._world = world

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._world.run(self._answer(request))

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        asked = httpx.Request(
            request.method,
            request.url,
            headers=request.headers,
            content=request.read(),
            extensions=request.extensions,
        )
        answer = await self._world.network.handle_async_request(asked)
        return httpx.Response(
            answer.status_code, headers=answer.headers, content=await answer.aread()
        )


@contextmanager
def quiet_world(controllers: int) -> Iterator[QuietWorld]:
    """Make one, and check that nothing went wrong that nobody took; its trace is printed."""
    verdict = Verdict(Wanted(seed=1, controllers=controllers))

    def sleep(seconds: float) -> None:
        made.sleep(seconds)

    with clocks.lent(sleep), staged(verdict, Choices("1"), print) as world:
        made = QuietWorld(world)
        yield made
        vars(made).clear()
    assert not verdict.faults
