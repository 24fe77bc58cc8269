"""Reader groups: their shared state, made durable, and which of their readers live."""

from controller.groups.creation import GroupCreation
from controller.groups.registry import Group, Groups, Logs, read_logs
from controller.store.groups import StoredGroup, read_groups, read_positions

__all__ = [
    "Group",
    "GroupCreation",
    "Groups",
    "Logs",
    "StoredGroup",
    "read_groups",
    "read_logs",
    "read_positions",
]
