"""One run, from its seed to its verdict."""

import gc
import hashlib
import logging
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any
from unittest import mock

import anyio.to_thread
from fastapi.telemetry import _runtime

from controller.background import maintenance
from controller.database import failures
from tests.simulation import clocks, disk, judge, scenario
from tests.simulation.choices import Choices
from tests.simulation.kernel import (
    EndlessError,
    Node,
    SimulatedLoop,
    errors_here,
    find_node,
)
from tests.simulation.world import World
from tidegauge.client.transport import Transport

_MOST_S = 120.0
"""Of the processor, for one run: ten times what the dearest take."""


@dataclass(frozen=True)
class Wanted:
    """What is to be run."""

    seed: int
    controllers: int = 1
    is_long: bool = False
    only: frozenset[str] | None = None
    about: str | None = None
    """The subject of a story; the seed chooses one if left out."""
    defect: str | None = None
    """What is planted."""

    @property
    def line(self) -> str:
        parts = ["python -m tests.simulation", str(self.seed)]
        parts += [f"--controllers {self.controllers}"] if self.controllers > 1 else []
        parts += ["--long"] if self.is_long else []
        parts += [f"--about {self.about}"] if self.about else []
        parts += [f"--defect {self.defect}"] if self.defect else []
        if self.only is not None:
            parts += [f"--only '{','.join(sorted(self.only))}'"]
        return " ".join(parts)


@dataclass
class Verdict:
    """What came of a run."""

    wanted: Wanted
    faults: list[str] = field(default_factory=list)
    happened: list[str] = field(default_factory=list)
    digest: str = ""
    requests: int = 0
    transactions: int = 0
    virtual_s: float = 0.0
    real_s: float = 0.0

    @property
    def laws(self) -> list[str]:
        """Which laws the faults break, in their order."""
        return [one.partition(":")[0] for one in self.faults]


class Trace:
    """What happened, as lines and as a digest of them."""

    def __init__(self, tell: Callable[[str], object] | None) -> None:
        self._digest = hashlib.blake2b(digest_size=8)
        self._tell = tell
        self.loop: SimulatedLoop

    def __call__(self, kind: str, what: str) -> None:
        line = f"{self.loop.time():10.6f} {kind:12} {what}"
        self._digest.update(f"{line} {self.loop.turns}\n".encode())
        if self._tell is not None:
            self._tell(line)

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


def run(wanted: Wanted, *, tell: Callable[[str], object] | None = None) -> Verdict:
    """Run a seed, and judge it; ``tell`` takes the lines of the trace."""
    began_s = clocks.real_cpu_s()
    choices = Choices(f"{wanted.seed}/{wanted.controllers}/{wanted.is_long}", only=wanted.only)
    verdict = Verdict(wanted)
    course = scenario.LONG if wanted.is_long else scenario.STORY
    course = course._replace(about=wanted.about)
    # From the start, where the subject is known; a story that the seed chooses begins later with it.
    often = wanted.about == scenario.sparing.__name__
    period_s = scenario.OFTEN_S if often else maintenance._PERIOD_S
    kept = mock.patch.object(maintenance, "_PERIOD_S", period_s)
    with kept, staged(verdict, choices, tell) as world, _within_reason(world.loop):
        try:
            work = world.loop.world.spawn(_play(world, course, verdict), name="the world")
            world.loop.run_until_complete(work)
        except EndlessError as error:
            verdict.faults.append(f"does not end: {error}")
        del work
    verdict.real_s = clocks.real_cpu_s() - began_s
    return verdict


@contextmanager
def staged(
    verdict: Verdict, choices: Choices, tell: Callable[[str], object] | None
) -> Iterator[World]:
    """Make a world under virtual time, in which nothing happens yet, and leave nothing of it."""
    trace = Trace(tell)
    loop = trace.loop = SimulatedLoop(choices, trace)
    gc.freeze()  # what is there is not looked through at the end
    gc.disable()
    clocks.use(loop.time, errors_here)
    defaults: Any = Transport.__init__.__kwdefaults__
    try:
        with choices.for_all(), _in_place_of_threads(loop), _heard(loop, trace, verdict) as log:
            world = World(loop, choices, controllers=verdict.wanted.controllers)
            log.world = world
            defaults["transport"] = world.network
            with world.passes.followed():
                yield world
            verdict.requests = world.network.requests
            verdict.transactions = world.disk.transactions
            verdict.happened, verdict.virtual_s = choices.happened, loop.time()
            trace("ends", str(verdict.faults))
            verdict.digest = trace.hexdigest()
    finally:
        defaults["transport"] = None
        with _unheard():
            loop.end()
            # SQLAlchemy keeps for ever who connects to the disk.
            world.disk.listeners.clear()
            world.disk.begun.clear()
            vars(world).clear()  # whoever has it lets go of what was in it
            del loop, trace.loop
            gc.collect()
            gc.enable()
            gc.unfreeze()


async def _play(world: World, course: scenario.Course, verdict: Verdict) -> None:
    try:
        if world.disk.is_shared:
            world.loop.world.spawn(judge.oversee(world), name="overseeing")
        await scenario.play(world, course)
        judging = Node("judge", world.loop)
        verdict.faults += await judging.spawn(judge.judge_lateness(world))
        await scenario.end(world)
        verdict.faults += await judging.spawn(judge.judge_all(world))
    except Exception as error:  # noqa: BLE001 (it is a fault)
        verdict.faults += [*world.ledger.troubles, f"nothing to judge: {error!r}"]


@contextmanager
def _in_place_of_threads(loop: SimulatedLoop) -> Iterator[None]:
    """Run what anyio would run in a thread as all others, also where FastAPI has bound it."""

    async def run_sync(work: Callable[..., Any], *args: Any, **_options: Any) -> Any:
        return await loop.run_in_executor(None, work, *args)

    with ExitStack() as patches:
        for module in (anyio.to_thread, _runtime):
            patches.enter_context(mock.patch.object(module, "run_sync", run_sync))
        yield


class _Log(logging.Handler):
    """Puts what is logged in the trace; a traceback is a fault, for nobody took the error."""

    def __init__(self, trace: Trace, verdict: Verdict) -> None:
        super().__init__(logging.INFO)
        self._trace = trace
        self._verdict = verdict
        self.world: World
        """Whose books record writers and readers that a controller says it dropped."""

    def emit(self, record: logging.LogRecord) -> None:
        node = find_node()
        self._trace("log", f"{node} {record.levelname} {record.name}: {record.getMessage()}")
        told: Any = record
        if record.getMessage() == "writer expired" and told.stream in self.world.ledger.streams:
            book = self.world.ledger.streams[told.stream]
            book.drop(told.writer, self.world.listened_s)
        is_silent = record.getMessage() == "reader silent" and self._is_certain(node)
        if is_silent and told.group in self.world.ledger.groups:
            self.world.ledger.groups[told.group].drop(told.reader, self.world.listened_s)
        if record.name == failures.__name__ and not any(
            one in record.getMessage() for one in disk.SAID
        ):
            self._verdict.faults.append(f"refused: {record.getMessage()}")
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            self._trace("traceback", "".join(traceback.format_exception(error)))
            self._verdict.faults.append(f"nobody took: {error!r} ({record.getMessage()})")

    def _is_certain(self, node: Node | None) -> bool:
        """Return whether a controller holds the database: one that has lost it changes nothing."""
        return any(
            one.node is node and one.app.process.right.is_certain
            for one in self.world.controllers
        )


@contextmanager
def _heard(loop: SimulatedLoop, trace: Trace, verdict: Verdict) -> Iterator[_Log]:
    """Hear of all that goes wrong."""
    handler = _Log(trace, verdict)
    root = logging.getLogger()
    root.addHandler(handler)
    level, root.level = root.level, logging.INFO

    def handle(_loop: object, context: dict[str, Any]) -> None:
        error = context.get("exception")
        trace("unheard", f"{context.get('message')} {error!r}")
        verdict.faults.append(f"nobody took: {error!r} ({context.get('message')})")

    loop.set_exception_handler(handle)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield handler
    finally:
        root.removeHandler(handler)
        root.level = level
        loop.set_exception_handler(lambda *_: None)


@contextmanager
def _within_reason(loop: SimulatedLoop) -> Iterator[None]:
    """End a run in which one callback does not end, and say where it is."""

    def give_up(_signal: int, frame: FrameType | None) -> None:
        loop.endless = "".join(traceback.format_stack(frame, limit=6))
        raise EndlessError

    kept = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, _MOST_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, kept)


def say_nothing(_what: object) -> None:
    """Keep nothing of what ends, either, as a mock would."""


@contextmanager
def _unheard() -> Iterator[None]:
    """Let what is left of a run end; nobody hears of it."""
    logging.disable(logging.CRITICAL)
    try:
        quiet = mock.patch.object(sys, "unraisablehook", say_nothing)
        with warnings.catch_warnings(action="ignore"), quiet:
            yield
    finally:
        logging.disable(logging.NOTSET)
