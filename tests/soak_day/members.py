"""Processes of a day that are killed and started again under their names."""

import asyncio
import json
import os
import random
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tests.patience import wait_until
from tests.server import ServerProcess
from tests.service.controllers import answers

_ROOT = Path(__file__).parents[2]
_LONGEST_LINE = 2**24


class EndedError(Exception):
    """A process ended that nobody had killed."""

    def __init__(self, name: str, log: Path) -> None:
        super().__init__(
            f"{name} ended by itself; its log says: {log.read_text(errors='replace')[-2_000:]}"
        )


class Client:
    """A writer, a reader or a driver: what it tells, in lines of JSON, goes to whoever hears.

    The arguments of Python are made anew for each start.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        arguments: Callable[[], Sequence[str]],
        hear: Callable[[str, list[Any]], None],
    ) -> None:
        self.name = name
        self.started = 0.0
        self.pid: int | None = None
        self._log = folder / f"{name}.log"
        self._arguments = arguments
        self._hear = hear
        self._listening: asyncio.Task[None]

    def check(self) -> None:
        """Raise what was heard that is wrong, and that it ended."""
        if self._listening.done():
            self._listening.result()

    async def start(self) -> None:
        """Start it, and listen."""
        with self._log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *self._arguments(),
                stdout=PIPE,
                stderr=log,
                cwd=_ROOT,
                limit=_LONGEST_LINE,
                start_new_session=True,
            )
        self.pid, self.started = process.pid, time.monotonic()
        self._listening = asyncio.create_task(self._listen(process))

    async def kill(self) -> None:
        """End it, and what it started, as a power cut would; hear its last words."""
        if self.pid is not None and not self._listening.done():
            os.killpg(self.pid, signal.SIGKILL)
            self.pid = None
            await self._listening

    async def _listen(self, process: Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            if line.startswith(b"[") and line.endswith(b"\n"):  # not what Java says, nor a half
                word, *more = json.loads(line)
                self._hear(word, more)
        await process.wait()
        if self.pid is not None:
            raise EndedError(self.name, self._log)


class Controller:
    """A controller on a server of the tests."""

    def __init__(self, name: str, server: ServerProcess) -> None:
        self.name = name
        self.started = time.monotonic()
        self.pid: int | None = server.process.pid
        self._server = server

    def check(self) -> None:
        """Raise that it ended."""
        if self.pid is not None and self._server.process.poll() is not None:
            raise EndedError(self.name, self._server.log)

    async def start(self) -> None:
        """Start it at its old address, and wait until it serves or stands by."""
        self._server.launch()
        await asyncio.to_thread(wait_until, partial(answers, self._server))
        self.pid, self.started = self._server.process.pid, time.monotonic()

    async def kill(self) -> None:
        """End it as a power cut would."""
        self.pid = None
        self._server.kill()


class Kill(NamedTuple):
    """A kill to come: after how long, of which kind, which one of it, and how long it is away."""

    wait_s: float
    kind: str
    which: float
    away_s: float


def kills(seed: int, every_s: float) -> Iterator[Kill]:
    """Draw kills without end: of each kind in turn, in an order that changes with each turn."""
    chance = random.Random(seed)
    kinds = ["controller", "driver", "producer", "reader", "writer"]
    while True:
        for kind in chance.sample(kinds, len(kinds)):
            wait_s = min(chance.expovariate(1 / every_s), 4 * every_s)
            yield Kill(wait_s, kind, chance.random(), chance.choice([0, 0, 1, 5, 10]))
