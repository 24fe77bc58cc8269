"""The clock of the replay, and how far it may go ahead of those who read the flights."""

from collections.abc import Sequence
from ctypes import c_int64
from math import ceil

from tidegauge.event_time import describe_event_time
from tidegauge_cli.demo.address import StreamAddress
from tidegauge_cli.demo.flights import HOUR_MS

# Of a stream whose event time runs thousands of times as fast as usual, or stands: a carrier
# holds it while a flight is in the air, for longer than a minute if the replay is slow.
REPLAYED = {
    "mark_interval_ms": 50,
    "mark_resolution_ms": 60_000,
    "aggregation_timeout_ms": None,
    "hold_limit_ms": None,
}


class ReplayClock:
    """Event time that runs at a multiple of wall clock to its end, except while it has to wait.

    One process turns it; those that report flights read the same memory. It starts from the time
    that is there; from its end on, where it stops for good, no time is counted. The speed is in
    seconds of replay in one second; ``at_s`` is a monotonic clock, now.
    """

    def __init__(self, time_ms: c_int64, *, end_ms: int, speed: float, at_s: float) -> None:
        self.start_ms = time_ms.value
        self.end_ms = end_ms
        self.waited_s = 0.0
        self._time_ms = time_ms
        self._speed = speed
        self._started_s = self._turned_s = at_s

    @property
    def now_ms(self) -> int:
        """Where it stands."""
        return self._time_ms.value

    @property
    def ran_s(self) -> float:
        """Wall clock since it started, until it was last turned."""
        return self._turned_s - self._started_s

    @property
    def mean_speed(self) -> float:
        """Seconds of replay in one second so far."""
        return (self.now_ms - self.start_ms) / 1_000 / self.ran_s

    def turn(self, at_s: float, *, limit_ms: int) -> None:
        """Go on by what has passed since the last time, but not beyond a limit or the end."""
        if self.now_ms >= self.end_ms:
            return
        passed_s = at_s - self._turned_s
        self._turned_s = at_s
        go_ms = passed_s * self._speed * 1_000  # may be infinite
        room_ms = max(0, min(limit_ms, self.end_ms) - self.now_ms)
        if room_ms < go_ms:
            self.waited_s += passed_s * (1 - room_ms / go_ms)
        self._time_ms.value += int(min(go_ms, room_ms))


class Pace:
    """Divides flights evenly over about so many batches of a query, however slow those are."""

    def __init__(self, landed: Sequence[int], *, batches: int) -> None:
        self._landed = landed
        self._batches = batches

    def limit_ms(self, read: int, batches: int) -> int:
        """Find how far the clock may go while so many flights are in so many finished batches."""
        batches_left = max(1, self._batches - batches)
        beyond = read + max(1, ceil((len(self._landed) - read) / batches_left))
        if beyond >= len(self._landed):
            return self._landed[-1]
        return max(self._landed[read], self._landed[beyond] - 1)


def describe_progress(address: StreamAddress, clock: ReplayClock) -> str:
    """Say where the replay and the watermark of its stream stand."""
    stream = address.describe()
    if stream is None:
        return f"{_minute(clock.now_ms)}  {address.stream} was deleted"
    stands = "none yet"
    if stream.watermark is not None:
        behind_h = (clock.now_ms - stream.watermark) / HOUR_MS
        stands = f"{_minute(stream.watermark)} ({behind_h:.1f} h behind)"
    rows = sum((stream.tail or {}).values())
    return f"{_minute(clock.now_ms)}  watermark {stands}  {rows} rows"


def _minute(time_ms: int) -> str:
    return describe_event_time(time_ms)[5:16].replace("T", " ")
