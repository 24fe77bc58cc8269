"""Which controller holds which stream and reader group, if several share a database."""

from controller.cluster.alone import SoleOwnership
from controller.cluster.ownership import Ownership
from controller.cluster.shared import SharedOwnership

__all__ = ["Ownership", "SharedOwnership", "SoleOwnership"]
