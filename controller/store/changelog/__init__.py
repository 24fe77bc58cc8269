"""What happens to the aggregations of streams: changelogs, and the marks that come of them."""

from controller.store.changelog.change_store import ChangeStore
from controller.store.changelog.own import OwnLogs
from controller.store.changelog.shared import SharedLog

__all__ = ["ChangeStore", "OwnLogs", "SharedLog"]
