"""What is lost on the way to the disk or the caller: memory shows what is stored, and nothing before."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from sqlalchemy import Connection

from controller.configuration import ServeSettings
from controller.database import Database
from controller.streams import lifecycle
from tests.service.in_process import in_process
from tests.service.problems import check_problem
from tidegauge.errors import OutcomeUnknownError, UnavailableError
from tidegauge.names import StreamName
from tidegauge.wire.streams import CreateStream

NOW = 1_700_000_000_000
ONE, LOG, GROUP = "/v1/streams/tests/one", "/v1/streams/tests/log", "/v1/reader-groups/tests/g"
EXTERNAL = {"log": "external", "segments": 1, "mark_interval_ms": 0}
NEW, NEW_GROUP = "/v1/streams/tests/new", "/v1/reader-groups/tests/new"
LINES = {
    "content": '{"key": "k", "value": "v"}',
    "headers": {"content-type": "application/x-ndjson"},
}
OF_LOG = {"streams": ["tests/log"]}
NOTE = {"time": NOW, "position": {"0": 1}}


class Change(NamedTuple):
    """A call, and where its change is seen."""

    method: str
    path: str
    seen_at: str
    more: dict[str, Any] | None = None
    is_operators: bool = False

    async def make(self, client: httpx.AsyncClient) -> httpx.Response:
        more = {"headers": {"if-match": "*"}} | (self.more or {})
        return await client.request(self.method, self.path, **more)

    async def look(self, client: httpx.AsyncClient) -> tuple[object, ...]:
        answer = await client.get(self.seen_at)
        return answer.status_code, answer.headers.get("etag"), answer.json()


CHANGES = {
    "a stream is created": Change("PUT", NEW, NEW, {"json": {}}, is_operators=True),
    "settings change": Change(
        "PATCH", ONE, ONE, {"json": {"min_writers": 2}}, is_operators=True
    ),
    "a time is noted": Change("POST", f"{ONE}/writers/w/note-time", ONE, {"json": NOTE}),
    "events are appended": Change("POST", f"{LOG}/events", LOG, LINES),
    "a stream is sealed": Change("POST", f"{LOG}/seal", LOG, is_operators=True),
    "a stream is deleted": Change("DELETE", ONE, ONE, is_operators=True),
    "a group is created": Change("PUT", NEW_GROUP, f"{NEW_GROUP}/state", {"json": OF_LOG}),
    "a reader joins": Change("POST", f"{GROUP}/readers/a", f"{GROUP}/state"),
    "a group is deleted": Change("DELETE", GROUP, f"{GROUP}/state", is_operators=True),
}


class Slow:
    """A database whose next transaction waits, and then comes to an end that its caller does not see."""

    def __init__(self, database: Database, *, is_stored: bool) -> None:
        self.writing, self.go_on = asyncio.Event(), asyncio.Event()
        self._database, self._write, self._is_stored = database, database.write, is_stored
        database.write = self.write  # type: ignore[method-assign]

    async def write(self, work: Callable[[Connection], None], *, rows: int) -> None:
        self._database.write = self._write  # type: ignore[method-assign]
        self.writing.set()
        await self.go_on.wait()
        if self._is_stored:
            await self._write(work, rows=rows)
            reason = "the connection is lost"
            raise OutcomeUnknownError(reason)
        await self._write(partial(_fail_behind, work), rows=rows)


def _fail_behind(work: Callable[[Connection], None], connection: Connection) -> None:
    work(connection)
    connection.exec_driver_sql("SELECT nothing FROM nowhere")


@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "lost"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_seen_once_it_is_stored_and_only_if_it_is(
    tmp_path: Path, change: Change, *, is_stored: bool, caplog: pytest.LogCaptureFixture
) -> None:
    settings = ServeSettings(database_url=f"sqlite:///{tmp_path}/one.db")
    caplog.set_level(logging.INFO)

    async def scene() -> None:
        async with in_process(settings) as (app, client):
            for path, wanted in ((ONE, EXTERNAL), (LOG, {}), (GROUP, OF_LOG)):
                (await client.put(path, json=wanted)).raise_for_status()
            before = await change.look(client)
            slow = Slow(app.parts.database, is_stored=is_stored)
            making = asyncio.create_task(change.make(client))
            await slow.writing.wait()
            looking = asyncio.create_task(change.look(client))  # it waits, or sees nothing yet
            await asyncio.wait({looking}, timeout=0.05)
            is_seen = looking.done()
            slow.go_on.set()
            code = (502, "outcome_unknown") if is_stored else (503, "unavailable")
            check_problem(await making, *code)
            now = await change.look(client)
            assert await looking == (before if is_seen else now)
            assert (now != before) is is_stored
        async with in_process(settings) as (_, client):
            assert await change.look(client) == now
            again = await change.make(client)
            assert again.is_success or (change.method, is_stored) == ("DELETE", True)
            assert await change.look(client) != before

    asyncio.run(scene())
    logged = [vars(one) for one in caplog.records if one.getMessage() == "operator call"]
    unknown = [one["path"] for one in logged if one["status"] == 502]
    assert unknown == ([change.path] if change.is_operators and is_stored else [])


def test_a_stream_that_was_replaced_in_one_failed_transaction_is_the_former_one(
    tmp_path: Path,
) -> None:
    settings = ServeSettings(database_url=f"sqlite:///{tmp_path}/one.db")

    async def scene() -> None:
        async with in_process(settings) as (app, client):
            (await client.put(ONE, json=EXTERNAL)).raise_for_status()
            registry, name = app.parts.registry, StreamName("tests", "one")
            state = registry.get(name)
            Slow(app.parts.database, is_stored=False).go_on.set()
            create = partial(
                lifecycle.create_stream,
                registry=registry,
                name=name,
                request=CreateStream(log="external"),
                only_create=True,
            )
            delete = partial(lifecycle.delete_stream, state=state)
            submit = app.parts.sequencer.submit
            outcomes = await asyncio.gather(
                submit(delete), submit(create), return_exceptions=True
            )
            assert [type(one) for one in outcomes] == [UnavailableError, UnavailableError]
            assert registry.get(name) is state
            assert (await client.post(f"{ONE}/writers/w/note-time", json=NOTE)).is_success

    asyncio.run(scene())
