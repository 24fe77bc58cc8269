"""Listening time: the clock that may expire writers, fair to outages and suspended machines."""

import dataclasses
from collections.abc import Callable
from time import monotonic_ns

import msgspec

from tidegauge.changes import Changes, StoredClock, StoredWriter

STAMP_MS = 250
_LONGEST_STEP_MS = 1_000


def _monotonic_ms() -> int:
    return monotonic_ns() // 1_000_000


class ListeningClock:
    """Sums the steps of a monotonic clock between stamps, each counted as 1 s at most.

    It stands until the first stamp, and while the clock underneath is behind its last stamp, as
    on a faulty hypervisor: nobody is given time that way.

    Parameters
    ----------
    stored_ms
        The last stamp that was stored: where the service left off.
    monotonic_ms
        The clock underneath.
    """

    def __init__(self, stored_ms: int, monotonic_ms: Callable[[], int] = _monotonic_ms) -> None:
        self._monotonic_ms = monotonic_ms
        self._stamp_ms = stored_ms
        self._stamped_at = monotonic_ms()
        self._halted = True

    def now_ms(self) -> int:
        """Read the clock."""
        if self._halted:
            return self._stamp_ms
        step = self._monotonic_ms() - self._stamped_at
        return self._stamp_ms + min(max(step, 0), _LONGEST_STEP_MS)

    @property
    def stamp_age_ms(self) -> int:
        """How long ago the last stamp was made, by the clock underneath."""
        return self._monotonic_ms() - self._stamped_at

    def stamp(self, *, halt: bool = False) -> int:
        """Make a stamp, due every 250 ms, and return it.

        Parameters
        ----------
        halt
            Whether nobody can be heard from now on: the clock stands until the next stamp.
        """
        self._stamp_ms = self.now_ms()
        self._stamped_at = self._monotonic_ms()
        self._halted = halt
        return self._stamp_ms


def in_stream_time(changes: Changes, offset_ms: int) -> Changes:
    """Tell the times of a holder's clock as listening time of a stream, as it is stored."""
    return msgspec.structs.replace(
        changes,
        writers=[_shifted(one, offset_ms) for one in changes.writers],
        holds={name: _later(since, offset_ms) for name, since in changes.holds.items()},
    )


def in_holder_time(stored: StoredClock, offset_ms: int) -> StoredClock:
    """Tell stored listening time of a stream as times of its holder's clock."""
    return dataclasses.replace(
        stored, writers=(_shifted(one, -offset_ms) for one in stored.writers)
    )


def _shifted(writer: StoredWriter, by_ms: int) -> StoredWriter:
    return writer._replace(
        hold_since_ms=_later(writer.hold_since_ms, by_ms),
        gone_ms=_later(writer.gone_ms, by_ms),
    )


def _later(time_ms: int | None, by_ms: int) -> int | None:
    return None if time_ms is None else time_ms + by_ms
