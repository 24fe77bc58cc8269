"""Readings of devices as they arrive: in disorder, with gaps, after restarts; and what is true of them.

Each device is behind a gateway, which is the writer: it knows what its devices still have to hand
in. The same seed gives the same readings.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from random import Random
from typing import NamedTuple

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
START_MS = 1_704_067_200_000  # 1 January 2024, UTC

_LOST_LINKS_A_DAY = 0.5  # of a device, which keeps its readings until the link is back
_RESTARTS_A_DAY = 2  # of a device, which measures nothing while it is down
_LONGEST_GAP_MS = 2 * HOUR_MS
_MEAN_DELAY_MS = 20_000


class Reading(NamedTuple):
    """One event on its way, whoever sent it.

    Attributes
    ----------
    writer
        The gateway.
    key
        The device.
    event_time
        When it was measured, ms.
    arrived
        When it was written, ms: never before.
    value
        How many readings the device has made since it started. Whole numbers, so that sums do
        not depend on the order in which they are added.
    """

    writer: str
    key: str
    event_time: int
    arrived: int
    value: int


def generate(
    *,
    devices: int,
    hours: float,
    every_ms: int = MINUTE_MS,
    gateways: int = 4,
    seed: int = 1,
) -> list[Reading]:
    """Make the readings of some hours, in the order in which they arrive."""
    end_ms = START_MS + round(hours * HOUR_MS)
    readings = [
        reading
        for number in range(devices)
        for reading in _of_device(
            f"gateway-{number % gateways}",
            f"device-{number:03}",
            end_ms,
            every_ms,
            Random(f"{seed} {number}"),
        )
    ]
    return sorted(readings, key=lambda one: (one.arrived, one.key, one.event_time))


def _of_device(
    gateway: str, device: str, end_ms: int, every_ms: int, chance: Random
) -> Iterator[Reading]:
    """Let a device measure until the end; what a lost link holds back arrives when it is back."""
    time, linked_from, count = START_MS + chance.randrange(every_ms), START_MS, 0
    while time < end_ms:
        count += 1
        # Whole seconds: some readings are at exactly the edge of a window.
        measured = time // 1_000 * 1_000
        delay = round(chance.expovariate(1 / _MEAN_DELAY_MS))
        yield Reading(gateway, device, measured, max(measured, linked_from) + delay, count)
        time += round(every_ms * chance.uniform(0.5, 1.5))
        if chance.random() < _LOST_LINKS_A_DAY * every_ms / (24 * HOUR_MS):
            linked_from = time + chance.randrange(_LONGEST_GAP_MS)
        if chance.random() < _RESTARTS_A_DAY * every_ms / (24 * HOUR_MS):
            time += chance.randrange(_LONGEST_GAP_MS)
            count = 0


def count_by_window(
    readings: Iterable[Reading], size_ms: int = HOUR_MS
) -> dict[tuple[str, int], tuple[int, int]]:
    """Compute count and sum of the values by key and start of the window, ms."""
    counts, sums = Counter[tuple[str, int]](), Counter[tuple[str, int]]()
    for one in readings:
        window = one.key, one.event_time // size_ms * size_ms
        counts[window] += 1
        sums[window] += one.value
    return {window: (count, sums[window]) for window, count in counts.items()}


def find_silences(readings: Iterable[Reading], longest_ms: int) -> list[tuple[str, int, str]]:
    """List when each key went ``offline``, and came back ``online``: key, time in ms, status.

    A key is offline once it was silent for longer than is allowed, and so after its last reading.
    """
    times = defaultdict[str, list[int]](list)
    for one in readings:
        times[one.key].append(one.event_time)
    found = []
    for key in sorted(times):
        in_order = sorted(times[key])
        for time, after in pairwise(in_order):
            if after - time > longest_ms:
                found += [(key, time + longest_ms, "offline"), (key, after, "online")]
        found.append((key, in_order[-1] + longest_ms, "offline"))
    return found
