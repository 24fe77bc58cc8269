"""For how long a silent writer has held the watermark, as it is told and as it is stored."""

import asyncio
import time
from dataclasses import dataclass
from typing import NamedTuple

from controller.store.changelog import load_entry
from tests.patience import PATIENCE_S
from tests.service.controllers import Controllers
from tests.service.lease_load import HELD, SILENT, Load
from tidegauge.aggregation.clocks import HoldClocks, View
from tidegauge.aggregation.readings import Readings
from tidegauge.aggregation.replay import Replay

TIMEOUT_MS = 300_000
_UNTIL_STORED_MS = 2_000
_SCOPE, _STREAM = HELD.split("/")
_STORED = f"""
SELECT entry, listening_ms FROM listening, changelog JOIN streams ON key = stream_key
WHERE scope = '{_SCOPE}' AND stream = '{_STREAM}' ORDER BY number
"""


def _view(*, now_ms: int) -> View:
    return View(
        now_ms=now_ms,
        timeout_ms=TIMEOUT_MS,
        limit_ms=None,
        watermark=None,
        revision=0,
        greatest=None,
    )


class Reading(NamedTuple):
    """The clock at a moment between two others; since when, in the time of its stream."""

    since_ms: int | None
    stored_ms: int
    asked_s: float
    told_ms: int
    answered_s: float


@dataclass
class HoldClock:
    """The hold clock of the silent writer, whoever holds the database."""

    load: Load
    controllers: Controllers

    async def read(self) -> Reading:
        """Read what is stored, and then what is told."""
        rows = await asyncio.to_thread(self.controllers.query, _STORED)
        clocks = HoldClocks()
        replay = Replay(None, clocks)
        for entry, _ in rows:
            replay.take_in(load_entry(entry))
        silent, waiting = replay.writers[SILENT][0], replay.state.waiting
        stamp_ms = clocks.stored(silent).silence_stamp or 0
        since_ms = None if waiting is None else max(stamp_ms, waiting[0])
        stored_ms = Readings(clocks, _view(now_ms=rows[-1][1])).shown(silent)["silence"] or 0
        asked_s = time.monotonic()
        answer = await self.load.ask(f"/v1/streams/{HELD}/watermark")
        (holder,) = answer["explanation"]["holders"]
        assert (holder["writer"], holder["state"]) == (SILENT, "behind")
        told_ms = holder["silent_for_ms"]
        return Reading(since_ms, stored_ms, asked_s, told_ms, time.monotonic())

    async def until_it_goes(self) -> None:
        """Wait until it goes on from now."""
        held_ms = (await self.read()).told_ms
        async with asyncio.timeout(PATIENCE_S):
            while (await self.read()).told_ms <= held_ms:  # noqa: ASYNC110 (an answer)
                await asyncio.sleep(0.02)


def check_not_restarted(before: Reading, after: Reading, *, back_ms: int) -> None:
    """Check that a clock goes on from what was stored, or falls back by so much at the most.

    Whoever takes over counts from its own time now, which is stored with its next stamp only.
    """
    assert after.since_ms == before.since_ms is not None
    assert after.stored_ms >= before.stored_ms - _UNTIL_STORED_MS - back_ms
    assert after.told_ms >= before.stored_ms - back_ms


def check_not_charged(
    before: Reading, after: Reading, *, unheard_s: float, extra_ms: int
) -> None:
    """Check that a clock counts no more than the time in which somebody listened, and so much."""
    heard_s = after.answered_s - before.asked_s - unheard_s
    # Both readings are cut to full ms.
    assert after.told_ms - before.told_ms <= heard_s * 1_000 + extra_ms + 1
