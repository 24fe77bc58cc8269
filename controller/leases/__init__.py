"""Which controller holds which stream and reader group, if several share a database."""

from controller.leases.alone import HoldsAll
from controller.leases.holding import Holding
from controller.leases.shared import HoldsShare

__all__ = ["Holding", "HoldsAll", "HoldsShare"]
