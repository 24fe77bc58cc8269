"""Nobody sees settings that are not on disk."""

import asyncio
from collections.abc import Callable

import pytest
from sqlalchemy import Connection

from controller.configuration import ServeSettings
from tests.service.in_process import in_process
from tidegauge.errors import UnavailableError

pytestmark = pytest.mark.about_sql

STREAM = "/v1/streams/tests/one"


def test_settings_are_seen_once_they_are_durable(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing, go_on = asyncio.Event(), asyncio.Event()

    async def fail_late(_work: Callable[[Connection], None], *, rows: int) -> None:
        assert rows
        writing.set()
        await go_on.wait()
        reason = "the disk is full"
        raise UnavailableError(reason)

    async def scene() -> None:
        async with in_process(ServeSettings(database_url=database_url)) as (app, client):
            created = await client.put(STREAM, json={"min_writers": 1})
            with monkeypatch.context() as patched:
                patched.setattr(app.parts.database, "write", fail_late)
                headers = {"if-match": created.headers["etag"]}
                change = {"min_writers": 2}
                changing = asyncio.create_task(
                    client.patch(STREAM, json=change, headers=headers)
                )
                await writing.wait()
                seen = await client.get(STREAM)
                go_on.set()
                assert (await changing).status_code == 503
            assert seen.json()["config"]["min_writers"] == 1
            assert seen.headers["etag"] == created.headers["etag"]
            changed = await client.patch(STREAM, json=change, headers=headers)
            assert changed.json()["config"]["min_writers"] == 2
            assert (await client.get(STREAM)).headers["etag"] == changed.headers["etag"]

    asyncio.run(scene())
