"""The vocabulary of Tidegauge: topology, lattice, reports, marks, windows, errors.

Pure: no I/O, no clock. The service and the clients are built on it; `tidegauge.wire` has the
messages they exchange.
"""

import typing

from tidegauge import extras as _extras
from tidegauge.errors import PROBLEMS, ProblemError, TidegaugeError
from tidegauge.event_time import END_OF_TIME, to_event_time
from tidegauge.lattice import count_between, covers, cut_of, join, precedes
from tidegauge.marks import Mark
from tidegauge.names import StreamName, key_hash
from tidegauge.topology import KeyRange, Position, Segment, Topology
from tidegauge.windows import TimeWindow, time_window

if typing.TYPE_CHECKING:
    from tidegauge.aggregation.settings import StreamSettings
    from tidegauge.aggregation.writers import Now
    from tidegauge.aggregator import Aggregator
else:
    _NAMES = {
        None: {
            "Aggregator": "tidegauge.aggregator",
            "Now": "tidegauge.aggregation.writers",
            "StreamSettings": "tidegauge.aggregation.settings",
        },
    }
    __getattr__, __dir__ = _extras.on_demand(__name__, _NAMES)

__all__ = [
    "END_OF_TIME",
    "PROBLEMS",
    "Aggregator",
    "KeyRange",
    "Mark",
    "Now",
    "Position",
    "ProblemError",
    "Segment",
    "StreamName",
    "StreamSettings",
    "TidegaugeError",
    "TimeWindow",
    "Topology",
    "count_between",
    "covers",
    "cut_of",
    "join",
    "key_hash",
    "precedes",
    "time_window",
    "to_event_time",
]
