"""Work in the background meets streams that went, or were scaled elsewhere, a moment ago."""

import asyncio
from functools import partial

import pytest

from controller.background.maintenance import Maintenance
from controller.groups import StoredGroup
from controller.log.compaction import Compactor
from controller.store.groups import GroupSettings, insert_group
from tests.integration.log_api import numbered
from tests.integration.log_service import NAME, LogService, serving
from tidegauge.groups import GroupState, SegmentRef
from tidegauge.names import StreamName
from tidegauge.wire.streams import Retention

pytestmark = pytest.mark.about_sql


async def _look_after_logs(log: LogService) -> None:
    parts = log.parts
    compactor = Compactor(parts.database)
    maintenance = Maintenance(
        parts.registry, parts.sequencer, parts.database, compactor, parts.clocks
    )
    await maintenance._look_after_logs()


def test_a_stream_that_is_deleted_while_logs_are_looked_after_is_no_error(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        async with serving(database_url) as log:
            await log.create(segments=1)
            log.state.deleted = True
            await _look_after_logs(log)
            log.state.deleted = False

    asyncio.run(scene())
    assert [one.getMessage() for one in caplog.records if one.levelname == "ERROR"] == []


def test_a_stream_that_another_controller_scaled_meanwhile_is_left_to_it(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A controller that was paused for longer than its lease knows the old topology still."""

    async def scene() -> None:
        async with serving(database_url) as log:
            await log.create(segments=1)
            stream, stream_id = str(NAME), log.state.identity.stream_id
            await log.register("w")
            for sequence in (1, 2):
                await log.append("w", 1, 0, sequence, numbered(sequence, 1))
            limits = Retention(bytes=1)
            log.state.change_config(log.state.config.model_copy(update={"retention": limits}))
            settings = GroupSettings(
                streams=[stream],
                stream_ids={stream: stream_id},
                heartbeat_ms=1_000,
                dead_after_ms=5_000,
            )
            state = GroupState(unassigned={SegmentRef(stream, 7): 0})
            elsewhere = StoredGroup(StreamName("tests", "elsewhere"), settings, state)
            insert = partial(insert_group, group=elsewhere)
            await log.parts.database.change(insert)
            await _look_after_logs(log)

    asyncio.run(scene())
    assert [one.getMessage() for one in caplog.records if one.levelname == "ERROR"] == []
