"""Which controller holds which stream and reader group, if several share a database."""

from typing import TypeAlias

from controller.cluster.alone import SoleOwnership
from controller.cluster.shared import SharedOwnership

Ownership: TypeAlias = SoleOwnership | SharedOwnership
"""Which streams and reader groups a controller has in memory, from `start` to `stop`."""

__all__ = ["Ownership", "SharedOwnership", "SoleOwnership"]
