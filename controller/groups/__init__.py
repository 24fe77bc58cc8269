"""Reader groups: their shared state, made durable, and who of their readers lives."""

from controller.groups.group import Group
from controller.groups.registry import Groups
from controller.store.groups import StoredGroup, keep_groups_still, read_groups, read_positions

__all__ = [
    "Group",
    "Groups",
    "StoredGroup",
    "keep_groups_still",
    "read_groups",
    "read_positions",
]
