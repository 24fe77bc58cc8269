"""The parts of an aggregation that hold what it knows; calls and passes change them."""

from typing import NamedTuple

from tidegauge.aggregation.changelog import Changelog
from tidegauge.aggregation.clocks import HoldClocks
from tidegauge.aggregation.progress import Progress
from tidegauge.aggregation.roster import Roster
from tidegauge.aggregation.running_cut import RunningCut


class Parts(NamedTuple):
    """What the calls and passes of one stream's aggregation share."""

    roster: Roster
    """The writers by name."""
    cut: RunningCut
    """The reports above the watermark, and what the next mark covers."""
    progress: Progress
    """Where the writers stand against the watermark."""
    clocks: HoldClocks
    """How long each writer may still hold the watermark."""
    changelog: Changelog
    """What the next transaction stores."""
