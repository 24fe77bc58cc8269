"""An event loop in virtual time, which runs several processes in one thread.

A *node* is a process: a controller, a client. A context variable says to which node a callback
belongs; tasks, and what they call later, inherit it. Each node keeps the order of its callbacks,
and the seed chooses whose turn it is. Time goes on only when no node has anything to do, and by
`_STEP_S` a callback, so that nothing takes no time.

A kill drops the callbacks of a node, and keeps its tasks alive until the run is over: no
``finally`` runs, as in a process that is killed. A pause leaves them where they are.

This needs four private parts of `asyncio.BaseEventLoop`: ``_ready``, ``_scheduled``, ``_run_once``
and ``_context`` of handles. `tests.unit.repository.test_simulation_kernel` pins them.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from itertools import count
from typing import Any

from tests.simulation.choices import Choices
from tests.simulation.clocks import Errors

_STEP_S = 2e-6
_DIGEST = 2**61 - 1
_MOST_CALLBACKS = 150_000
"""Of a run, a few times what the dearest take; more would be a loop without an end."""
_RIGHT = Errors()


class EndlessError(Exception):
    """A run does not come to an end."""


class Node:
    """A process.

    Attributes
    ----------
    clocks
        What is wrong with its clocks.
    """

    def __init__(self, name: str, loop: "SimulatedLoop", errors: Errors | None = None) -> None:
        self.name = name
        self.clocks = errors or Errors()
        self.is_dead = False
        self.is_paused = False
        self._suspended_at: float | None = None
        self.on_kill: list[Callable[[], None]] = []
        """Called when it is killed, by the world: its sockets are closed, for example."""
        self.ready: deque[asyncio.Handle] = deque()
        self.number = loop.new_number()
        self._loop = loop
        self.context = copy_context()
        self.context.run(_NODE.set, self)

    def __repr__(self) -> str:
        return self.name

    @property
    def place(self) -> str:
        """The name that it shares with the processes before it and after it."""
        return self.name.partition("#")[0]

    def spawn(self, work: Coroutine[Any, Any, Any], *, name: str = "") -> asyncio.Task[Any]:
        return self._loop.create_task(work, name=name or None, context=self.context.copy())

    def kill(self) -> None:
        if not self.is_dead:
            self.is_dead = True
            self._loop.trace("killed", self.name)
            self._loop.bury(self)
            for told in self.on_kill:
                told()

    def pause_for(self, length_s: float, *, suspends: bool = False) -> None:
        """Pause; if its machine is suspended with it, its monotonic clock stands meanwhile."""
        if not (self.is_paused or self.is_dead):
            self.is_paused = True
            self._suspended_at = self._loop.time() if suspends else None
            self._loop.trace("paused", self.name)
            self._loop.call_later(length_s, self.resume, context=self._loop.world.context)

    def resume(self) -> None:
        if self.is_paused and not self.is_dead:
            self.is_paused = False
            if self._suspended_at is not None:
                self.clocks.suspended_s += self._loop.time() - self._suspended_at
            self._loop.trace("resumed", self.name)


_NODE: ContextVar[Node] = ContextVar("node")


def current_node() -> Node:
    """Return the node of the present callback."""
    return _NODE.get()


def find_node() -> Node | None:
    """Return the node of the present callback; None outside of a run."""
    return _NODE.get(None)


def errors_here() -> Errors:
    """Return what is wrong with the clocks of the present callback."""
    node = find_node()
    return _RIGHT if node is None else node.clocks


class _Numbered:
    """Hashes by a number, not by an address: sets of tasks have the same order in every process."""

    _numbers = count()
    _number: int

    def __new__(cls, *_args: Any, **_named: Any) -> Any:
        made = super().__new__(cls)
        made._number = next(_Numbered._numbers)
        return made

    def __hash__(self) -> int:
        return self._number


class _Task(_Numbered, asyncio.Task):  # type: ignore[type-arg]
    pass


class _Future(_Numbered, asyncio.Future):  # type: ignore[type-arg]
    pass


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Runs callbacks of nodes, one after another."""

    def __init__(self, choices: Choices, trace: Callable[..., None]) -> None:
        super().__init__()
        self._now_s = 0.0
        self._turns = choices.of("turns")
        self._active: list[Node] = []
        self._graves: list[object] = []
        self._callbacks = 0
        self.trace = trace
        self.turns = 0
        """A digest of whose turn it was, and when."""
        self.endless = ""
        """Where a callback was that did not end."""
        self.run_in_thread: Callable[..., asyncio.Future[Any]]
        self._ready: deque[Any]
        self._scheduled: list[Any]
        self._stopping: bool
        self._nodes = count()
        self.world = Node("world", self)
        self.set_task_factory(self._make_task)
        _Numbered._numbers = count()

    def new_number(self) -> int:
        return next(self._nodes)

    def time(self) -> float:
        return self._now_s

    def create_future(self) -> asyncio.Future[Any]:
        made: asyncio.Future[Any] = _Future(loop=self)
        return made

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        return self.run_in_thread(executor, func, *args)

    def bury(self, node: Node) -> None:
        tasks = sorted(asyncio.all_tasks(self), key=hash)
        self._graves += [*node.ready, *(one for one in tasks if one._node is node)]  # type: ignore[attr-defined]
        node.ready.clear()
        if node in self._active:
            self._active.remove(node)

    def end(self) -> None:
        """Close the loop, and let what is left end now: at the end of the process it would be told."""
        for task in asyncio.all_tasks(self):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            for _ in range(9):
                with suppress(Exception, asyncio.CancelledError):  # or it waits once more
                    task.get_coro().close()
                    break
        self._graves.clear()
        self._ready.clear()
        self._scheduled.clear()
        self.close()

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        if self.is_closed():
            return asyncio.Handle(callback, args, self, context)
        return super().call_soon(callback, *args, context=context)

    def _make_task(
        self,
        loop: asyncio.AbstractEventLoop,
        work: Any,
        context: Context | None = None,
        **more: Any,  # its name, from Python 3.13 on
    ) -> asyncio.Task[Any]:
        context = context or copy_context()
        task: asyncio.Task[Any] = _Task(work, loop=loop, context=context, **more)
        task._node = context.get(_NODE, self.world)  # type: ignore[attr-defined]
        return task

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: one that is cancelled is passed over in its time."""

    def _run_once(self) -> None:
        while not self._stopping:
            self._collect()
            runnable = [one for one in self._active if not one.is_paused]
            if not runnable:
                self._skip_time()
                continue
            chosen = 0 if len(runnable) == 1 else int(self._turns.random() * len(runnable))
            node = runnable[chosen]
            handle = node.ready.popleft()
            if not node.ready:
                self._active.remove(node)
            self._now_s += _STEP_S
            self._callbacks += 1
            self.turns = (self.turns * 1_000_003 ^ node.number ^ hash(self._now_s)) % _DIGEST
            if self._callbacks > _MOST_CALLBACKS or self.endless:
                raise EndlessError(self.endless)
            if node.is_dead:
                self._graves.append(handle)
            elif not handle._cancelled:
                handle._run()

    def _collect(self) -> None:
        scheduled = self._scheduled
        while scheduled and scheduled[0]._when <= self._now_s:
            timer = heapq.heappop(scheduled)
            timer._scheduled = False
            self._ready.append(timer)
        while self._ready:
            handle = self._ready.popleft()
            if handle._cancelled:
                continue
            node = handle._context.get(_NODE, self.world)
            if node.is_dead:
                self._graves.append(handle)
                continue
            if not node.ready:
                self._active.append(node)
            node.ready.append(handle)

    def _skip_time(self) -> None:
        scheduled = self._scheduled
        while scheduled and scheduled[0]._cancelled:
            heapq.heappop(scheduled)._scheduled = False
        if not scheduled:
            msg = "nobody has anything to do, or ever will have"
            raise EndlessError(msg)
        self._now_s = max(self._now_s, scheduled[0]._when)
