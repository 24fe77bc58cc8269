"""How long a group believes that its readers live."""

from functools import partial
from pathlib import Path
from typing import cast

import pytest

from controller.background.silence import SilentReaders
from controller.configuration import ServeSettings
from controller.factory import compose
from controller.groups import Group, Groups, StoredGroup
from controller.store.groups import GroupSettings
from tests.databases import open_database
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


@pytest.mark.anyio
async def test_a_group_that_is_deleted_while_a_reader_is_taken_offline_is_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database_url = f"sqlite:///{tmp_path}/one.db"
    parts = compose(ServeSettings(database_url=database_url), open_database(database_url))
    groups, sequencer = parts.groups, parts.sequencer
    sequencer.start()
    new = StoredGroup(StreamName("s", "g"), _SETTINGS, join_group(GroupState(), "crashed"))
    await sequencer.submit(partial(groups.find_or_add, new))
    group = groups.get(new.name)
    group.heard["crashed"] = -1_000
    sequencer.submit(partial(groups.delete, group.name))
    await SilentReaders(parts.registry, groups, sequencer, parts.clocks).take_offline()
    await sequencer.close()
    parts.database.close()
    assert [one.getMessage() for one in caplog.records] == ["reader silent"]
