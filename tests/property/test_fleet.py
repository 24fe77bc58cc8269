"""Days of a fleet on a virtual clock: who speaks in time is never late, and nobody holds for long.

The fleet itself judges, at every pass: rows that a mark passed by, whoever was dropped, whoever
holds the others, and what another service makes of what is stored.
"""

from collections.abc import Callable

from tests.effort import Effort
from tests.property.fleet import Fleet
from tests.property.fleet_lives import ALWAYS_IN_TIME, DAY_MS, Lives

TIMEOUT_MS, LIMIT_MS = 300_000, 1_800_000


def test_no_row_is_late_whose_writer_spoke_in_time_and_nobody_holds_beyond_the_settings(
    effort: Effort, record_property: Callable[[str, object], None]
) -> None:
    days = effort.times("simulated days", short=3, long=100)
    fleet = Fleet(seed=days, timeout_ms=TIMEOUT_MS, limit_ms=LIMIT_MS)
    Lives(fleet, 1 if days == 3 else 2)
    fleet.run(days * DAY_MS)
    for name, value in fleet.told().items():
        record_property(name, value)
    in_time = [kind for kind, _ in (*fleet.late, *fleet.expiries) if kind in ALWAYS_IN_TIME]
    assert not in_time, "whoever speaks in time is never dropped"
    assert max(fleet.longest_ms.values()) <= LIMIT_MS + TIMEOUT_MS
    # It is all for nothing if nothing happened.
    assert min(fleet.late.total(), fleet.expiries.total(), fleet.counts["marks"]) > 0
    assert fleet.counts["gateways back at the first report"] > 0
    assert fleet.longest_ms["hoarder"] > 0.9 * LIMIT_MS
