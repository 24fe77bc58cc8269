"""Work in the background meets streams that went, or were scaled elsewhere, a moment ago."""

import asyncio

import pytest

from controller.background.maintenance import Maintenance
from controller.log.compaction import Compactor
from tests.service.log_service import LogService, serving

pytestmark = pytest.mark.about_sql


async def _maintain_logs(log: LogService) -> None:
    parts = log.parts
    compactor = Compactor(parts.database)
    maintenance = Maintenance(
        parts.registry, parts.sequencer, parts.database, compactor, parts.clocks
    )
    await maintenance._maintain_logs()


def test_a_stream_that_is_deleted_while_logs_are_looked_after_is_no_error(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        async with serving(database_url) as log:
            await log.create(segments=1)
            log.state.deleted = True
            await _maintain_logs(log)
            log.state.deleted = False

    asyncio.run(scene())
    assert [one.getMessage() for one in caplog.records if one.levelname == "ERROR"] == []
