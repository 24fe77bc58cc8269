"""Reader groups: their shared state, made durable, and who of their readers lives."""

from controller.groups.group import Group
from controller.groups.registry import Groups
from controller.groups.storage import StoredGroup, read_groups

__all__ = ["Group", "Groups", "StoredGroup", "read_groups"]
