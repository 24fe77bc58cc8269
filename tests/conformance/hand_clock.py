"""A server whose clocks a test sets by hand, and whose passes it asks for."""

import mmap
import struct
from pathlib import Path
from time import monotonic

from tests.server import LAUNCHER
from tidegauge.aggregation.writers import Now

_FORM = struct.Struct("=qq")  # ms, and whether passes run
_NEVER_S = 1e6  # a timer can still be set for it
_LAUNCHER = """
from pathlib import Path
from controller.clocks import Clocks
from controller.streams.stream import StreamState
from tests.conformance.hand_clock import HandClock

clock = HandClock(Path({path!r}))
Clocks.now = lambda self: clock.now()
StreamState._earliest_pass = property(lambda self: clock.earliest_pass_s)
"""


class HandClock:
    """Both clocks of a server as one number, in a file that tests and the server map.

    A pass runs in every transaction while ``passes`` says so, and never else: neither in between,
    nor when its interval is over.
    """

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_FORM.size))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _FORM.size)
        self.launcher = _LAUNCHER.format(path=str(path)) + LAUNCHER

    def set(self, now_ms: int, *, passes: bool = False) -> None:
        """Let it be a moment, and passes run or not."""
        _FORM.pack_into(self._memory, 0, now_ms, passes)

    def now(self) -> Now:
        """Tell both clocks."""
        now_ms, _ = _FORM.unpack_from(self._memory)
        return Now(now_ms, now_ms)

    @property
    def earliest_pass_s(self) -> float:
        """When a pass may run, on the monotonic clock."""
        _, passes = _FORM.unpack_from(self._memory)
        return -1.0 if passes else monotonic() + _NEVER_S
