"""The clocks of Python, under virtual time while a simulation runs.

Modules bind ``time.monotonic`` and its like when they are imported. So `install` is called before
any of them is.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

_OURS = ("controller", "reader_client", "tidegauge", "writer_client")
real_cpu_s = time.process_time
"""What a run costs, in seconds of the processor."""
_WALL_S = 1_750_000_000
"""When every run begins, by the wall clock."""


@dataclass
class Errors:
    """What is wrong with the clocks of one process."""

    skew_s: float = 0.0
    """How far its wall clock is ahead."""
    rate: float = 1.0
    """Of its boot clock, by which it has a lease or stands by."""
    suspended_s: float = 0.0
    """How long its machine was suspended, when the monotonic clock stood and the others went on."""


class _Source:
    """Where the clocks read: nothing moves between two runs."""

    elapsed_s: Callable[[], float] = staticmethod(lambda: 0.0)
    errors: Callable[[], Errors] = staticmethod(Errors)
    """Of the present process."""


def use(elapsed_s: Callable[[], float], errors: Callable[[], Errors]) -> None:
    """Read virtual time from here, from now on."""
    _Source.elapsed_s, _Source.errors = staticmethod(elapsed_s), staticmethod(errors)


def monotonic_s() -> float:
    """Read the monotonic clock of the present process."""
    return 1_000.0 + _Source.elapsed_s() - _Source.errors().suspended_s


def boot_s() -> float:
    """Read the boot clock of the present process."""
    return 1_000.0 + _Source.elapsed_s() * _Source.errors().rate


def wall_s() -> float:
    """Read the wall clock of the present process."""
    return _WALL_S + _Source.elapsed_s() + _Source.errors().skew_s


def true_ms() -> int:
    """Read a wall clock that is right."""
    return int((_WALL_S + _Source.elapsed_s()) * 1_000)


def _sleep(seconds: float) -> None:
    msg = f"a thread of a simulation sleeps for {seconds} s"
    raise AssertionError(msg)


def _in_ns(clock: Callable[[], float]) -> Callable[[], int]:
    return lambda: int(clock() * 1_000_000_000)


_VIRTUAL: dict[str, Callable[..., Any]] = {
    "monotonic": monotonic_s,
    "monotonic_ns": _in_ns(monotonic_s),
    "perf_counter": lambda: monotonic_s(),  # noqa: PLW0108 (another object)
    "perf_counter_ns": _in_ns(monotonic_s),
    "time": wall_s,
    "time_ns": _in_ns(wall_s),
    "clock_gettime": lambda _clock: boot_s(),
    "sleep": _sleep,
}
"""In place of what Python's module has; no two are the same object."""


def install() -> None:
    """Replace the clocks of this process, for good."""
    vars(time).update(_VIRTUAL)


@contextmanager
def lent(sleep: Callable[[float], None]) -> Iterator[None]:
    """Replace the clocks of this process for a while, also where a module of ours has bound them.

    This thread sleeps as it is told; others really do, such as those that Spark has left.
    Defaults of parameters stay what they are.
    """
    real = {name: getattr(time, name) for name in _VIRTUAL}
    borrower = threading.get_ident()

    def sleep_here(seconds: float) -> None:
        (sleep if threading.get_ident() == borrower else real["sleep"])(seconds)

    virtual = _VIRTUAL | {"sleep": sleep_here}
    vars(time).update(virtual)
    _rebind({id(clock): virtual[name] for name, clock in real.items()}, _OURS)
    try:
        yield
    finally:
        vars(time).update(real)
        # Others may have been imported meanwhile.
        _rebind({id(clock): real[name] for name, clock in virtual.items()}, ())


def _rebind(clocks: dict[int, Callable[..., Any]], packages: tuple[str, ...]) -> None:
    """Replace clocks in all modules, or in those of some packages."""
    for module, bound in list(sys.modules.items()):
        if module in {"time", __name__} or (packages and not module.startswith(packages)):
            continue
        of_module = getattr(bound, "__dict__", {})
        for name, value in list(of_module.items()):
            if id(value) in clocks:
                of_module[name] = clocks[id(value)]
