"""The vocabulary of Tidegauge: topology, lattice, reports, marks, windows, errors.

Pure: no I/O, no clock. The service and the clients are built on it; `tidegauge.wire` has the
messages they exchange.
"""

from tidegauge import errors, event_time, marks, names, topology, windows  # noqa: F401 (as attributes)
from tidegauge import extras as _extras

__getattr__, __dir__, __all__ = _extras.on_demand(__name__)
