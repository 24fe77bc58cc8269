"""How long a test waits for what must come, before it fails; never how fast it must be.

Where several controllers share a database, their leases are such that a slow machine cannot lose one;
tests of leases set shorter ones. Where there is one, nobody takes over from it.
"""

import asyncio
import time
from collections.abc import Callable

PATIENCE_S = 60.0
LONG_LEASE_MS = 60_000
SHORT_LEASE_MS = 2_000


def wait_until(condition: Callable[[], bool]) -> None:
    """Ask until it is true."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


async def until(condition: Callable[[], bool]) -> None:
    """Ask until it is true, while other tasks go on."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 (whatever it looks at)
            await asyncio.sleep(0.005)
