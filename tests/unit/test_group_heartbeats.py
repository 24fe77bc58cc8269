"""How long a group believes that its readers live."""

from typing import cast

from controller.groups import Group, Groups, StoredGroup
from controller.store.groups import GroupSettings
from tidegauge.groups import GroupState, join_group
from tidegauge.names import StreamName

_SETTINGS = GroupSettings(streams=[], stream_ids={}, heartbeat_ms=1, dead_after_ms=2)


def test_who_takes_a_name_over_is_not_as_silent_as_its_predecessor() -> None:
    new = StoredGroup(StreamName("s", "g"), _SETTINGS, GroupState())
    group = Group(new, cast("Groups", None))
    group.change(new.after(join_group(new.state, "crashed")), 1_000)
    group.change(group.newest.after(join_group(group.state, "other")), 2_000)
    assert group.heard == {"crashed": 1_000, "other": 2_000}
    group.change(group.newest.after(join_group(group.state, "crashed")), 9_000)
    assert group.heard == {"crashed": 9_000, "other": 2_000}
