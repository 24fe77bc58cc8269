"""The clocks of Python, under virtual time while a simulation runs.

Modules bind ``time.monotonic`` and its like when they are imported. So `install` is called before
any of them is.
"""

import time
from collections.abc import Callable

real_cpu_s = time.process_time
"""What a run costs, in seconds of the processor."""
_WALL_S = 1_700_000_000
"""When every run begins, by the wall clock."""


class _Source:
    """Where the clocks read: nothing moves between two runs."""

    elapsed_s: Callable[[], float] = staticmethod(lambda: 0.0)
    skew_s: Callable[[], float] = staticmethod(lambda: 0.0)
    """How far the wall clock of the present process is wrong."""


def use(elapsed_s: Callable[[], float], skew_s: Callable[[], float]) -> None:
    """Read virtual time from here, from now on."""
    _Source.elapsed_s, _Source.skew_s = staticmethod(elapsed_s), staticmethod(skew_s)


def monotonic_s() -> float:
    """Read the monotonic clock, which all processes share."""
    return 1_000.0 + _Source.elapsed_s()


def wall_s() -> float:
    """Read the wall clock of the present process."""
    return _WALL_S + _Source.elapsed_s() + _Source.skew_s()


def true_ms() -> int:
    """Read a wall clock that is right."""
    return int((_WALL_S + _Source.elapsed_s()) * 1_000)


def _sleep(seconds: float) -> None:
    msg = f"a thread of a simulation sleeps for {seconds} s"
    raise AssertionError(msg)


def install() -> None:
    """Replace the clocks of this process, for good."""
    for name, clock in {
        "monotonic": monotonic_s,
        "perf_counter": monotonic_s,
        "time": wall_s,
    }.items():
        setattr(time, name, clock)
        setattr(time, f"{name}_ns", _in_ns(clock))
    time.clock_gettime = lambda _clock: monotonic_s()
    time.sleep = _sleep  # type: ignore[assignment]


def _in_ns(clock: Callable[[], float]) -> Callable[[], int]:
    return lambda: int(clock() * 1_000_000_000)
