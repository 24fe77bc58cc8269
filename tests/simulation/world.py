"""What a run is made of, and the processes of clients in it."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random

from tests.simulation.choices import Choices
from tests.simulation.clocks import Errors
from tests.simulation.cluster import Controller
from tests.simulation.disk import Disk
from tests.simulation.holds import Passes
from tests.simulation.kernel import Node, SimulatedLoop
from tests.simulation.ledger import GroupBook, Ledger, StreamBook
from tests.simulation.network import Network
from tests.simulation.threads import ThreadPools

_OF_READER = re.compile(r"/v1/reader-groups/([^/]+/[^/]+)/readers/([^/]+)(?:/heartbeat)?")


class World:
    """Everything that exists in a run.

    Attributes
    ----------
    is_writing
        Whether writers write on.
    is_reading
        Whether readers read on.
    is_calm
        Whether there are no faults any more.
    is_over
        Whether controllers may end for good.
    is_about_leases
        Whether what happens is mostly about who holds the database.
    loses_changes
        Whether a failover of the database loses more than changes of hands.
    longer_s
        How much longer than in other runs faults happen.
    favoured
        Great faults that happen more often, since the run is about what they disturb.
    """

    def __init__(self, loop: SimulatedLoop, choices: Choices, *, controllers: int) -> None:
        self.loop = loop
        self.choices = choices
        self.disk = Disk(loop, choices, is_shared=controllers > 1)
        loop.run_in_thread = ThreadPools(loop, self.disk).run
        self.network = Network(loop, choices)
        self.network.heard = self.hear
        self.controllers = [
            Controller(number, loop, choices, self.disk, self.network)
            for number in range(1, controllers + 1)
        ]
        self.programs: list[Program] = []
        self.ledger = Ledger()
        self.passes = Passes()
        self.is_writing = self.is_reading = True
        self.is_calm = self.is_over = self.is_about_leases = self.loses_changes = False
        self.favoured: list[str] = []
        self.longer_s = 0.0

    async def start(self) -> None:
        for controller in self.controllers:
            self.loop.world.spawn(controller.supervise(), name=f"supervising {controller.name}")
            controller.start()
        while not all(one.is_up for one in self.controllers):
            await asyncio.sleep(0.05)

    @property
    def listened_s(self) -> float:
        """How much time there was for writers and readers to be heard."""
        return self.loop.time() - self.disk.outage_s()

    def hear(self, path: str, arrived_s: float) -> None:
        """Record that something was heard of a reader."""
        found = _OF_READER.fullmatch(path)
        if found and found[1] in self.ledger.groups:
            self.ledger.groups[found[1]].heard[found[2]] = arrived_s - self.disk.outage_s()

    def url(self) -> str:
        return self.choices.one("urls", self.controllers).url

    def begin(self, program: "Program") -> None:
        self.programs.append(program)
        self.loop.world.spawn(program.supervise(), name=f"supervising {program.name}")

    def stream(self, name: str, **settings: object) -> StreamBook:
        book = self.ledger.streams[name] = StreamBook(name, settings)
        return book

    def group(self, name: str, stream: StreamBook) -> GroupBook:
        book = self.ledger.groups[name] = GroupBook(name, stream)
        return book


Work = Callable[["Program"], Awaitable[None]]
Expected = tuple[type[Exception], ...]


class Program:
    """A program of a client: whenever its process was killed, another one is started.

    Parameters
    ----------
    expects
        Errors after which another process is started, too. All others are the judge's business.
    """

    def __init__(self, world: World, name: str, work: Work, expects: Expected = ()) -> None:
        self.world = world
        self.name = name
        self.random: Random = world.choices.of(f"program {name}")
        self.process = 0
        """Which of its processes runs."""
        self.is_done = False
        self.node: Node
        self._work = work
        self._expects = expects
        self._ended = asyncio.Event()

    async def supervise(self) -> None:
        world = self.world
        while not self.is_done:
            self.process += 1
            errors = Errors(world.choices.between("skew", -0.2, 0.2))
            self.node = node = Node(f"{self.name}#{self.process}", world.loop, errors)
            self._ended = asyncio.Event()
            node.on_kill += [partial(world.network.close_all, node), self._ended.set]
            node.spawn(self._run(self._ended), name=self.name)
            await self._ended.wait()
            node.kill()  # what is left of a process ends with it
            if not self.is_done:
                await asyncio.sleep(world.choices.between("restart", 0.02, 0.5))

    def kill(self) -> None:
        if self.process and not self._ended.is_set():
            self.node.kill()

    async def _run(self, ended: asyncio.Event) -> None:
        try:
            await self._work(self)
            self.is_done = True
        except self._expects as error:
            self.world.loop.trace("starts again", f"{self.node} {error!r}")
        except Exception as error:  # noqa: BLE001 (the judge hears of it)
            self.world.ledger.troubles.append(f"stopped: {self.node} by {error!r}")
            self.is_done = True
        finally:
            ended.set()
