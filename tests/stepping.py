"""Servers whose clocks are set while they run, as an operator or a resumed machine does it.

Each has a file, named by its port, of how far its clocks are ahead. Waits of the event loop go by
a clock of its own, and stay as they are.
"""

import os
import struct
import time
from collections.abc import Callable
from mmap import ACCESS_READ, mmap
from pathlib import Path
from unittest.mock import patch

from controller import serve
from tests.environment import settings
from tests.server import ServerProcess

_AHEAD = struct.Struct("qq")
"""Of the wall clock and of the monotonic one, in ns."""
_MONOTONIC = {time.CLOCK_MONOTONIC, time.CLOCK_BOOTTIME}


def launcher(directory: Path) -> str:
    """Write Python code that serves, by clocks whose file is in a directory."""
    return f"from tests.stepping import serve_by; serve_by({str(directory)!r})"


def step(
    server: ServerProcess, directory: Path, *, wall_s: int = 0, monotonic_s: int = 0
) -> None:
    """Set clocks of a server on, or back."""
    with (directory / str(server.port)).open("r+b") as file:
        wall, monotonic = _AHEAD.unpack(file.read())
        file.seek(0)
        file.write(_AHEAD.pack(wall + wall_s * 10**9, monotonic + monotonic_s * 10**9))


def serve_by(directory: str) -> None:
    """Serve, in a process of its own."""
    place = Path(directory) / os.environ["TIDEGAUGE_PORT"]
    if not place.exists():
        place.write_bytes(_AHEAD.pack(0, 0))
    with place.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as ahead:
        _serve_ahead(lambda: _AHEAD.unpack_from(ahead))


def _serve_ahead(ahead_ns: Callable[[], tuple[int, ...]]) -> None:
    real_wall_ns, real_monotonic_ns = time.time_ns, time.monotonic_ns
    real_clock_s = time.clock_gettime

    def wall_ns() -> int:
        return real_wall_ns() + ahead_ns()[0]

    def monotonic_ns() -> int:
        return real_monotonic_ns() + ahead_ns()[1]

    def clock_s(clock: int) -> float:
        return real_clock_s(clock) + (ahead_ns()[1] / 10**9 if clock in _MONOTONIC else 0)

    with (
        patch.multiple(time, time_ns=wall_ns, time=lambda: wall_ns() / 10**9),
        patch.multiple(time, monotonic_ns=monotonic_ns, clock_gettime=clock_s),
        patch.object(time, "monotonic", lambda: monotonic_ns() / 10**9),
    ):
        serve(settings())
