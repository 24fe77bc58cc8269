"""Who creates what another controller has just created costs nobody else anything."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from controller.configuration import ServeSettings
from tests.integration.controllers import SETTINGS, Controllers, controllers, note
from tests.integration.in_process import in_process
from tests.patience import PATIENCE_S, until, wait_until
from tests.postgres import Cluster

EMBEDDED = {**SETTINGS, "log": "embedded"}
HELD_UP = (
    "SELECT count(*) FROM pg_stat_activity "
    "WHERE datname = current_database() AND wait_event_type = 'Lock'"
)
OTHER = (
    "INSERT INTO controllers (address, expires_at, listening_ms) "
    "VALUES ('', clock_timestamp() + interval '300 ms', 0)"
)


class Kind(NamedTuple):
    """What can be created.

    Attributes
    ----------
    path
        Of all, but for the name.
    body
        With which one is created.
    table
        Where they are.
    twin
        What another controller does to create one as it was asked for here.
    told
        What an answer about that one says, and about no other.
    """

    path: str
    body: dict[str, Any]
    table: str
    twin: str
    told: tuple[str, object]


STREAM = Kind(
    "/v1/streams/tests",
    EMBEDDED,
    "streams",
    "INSERT INTO streams (key, scope, stream, stream_id, created_ms, config, topology, "
    "holder) "
    "SELECT nextval('stream_keys'), scope, 'twin', 'first', created_ms, config, topology, "
    "(SELECT max(id) FROM controllers) FROM streams WHERE stream = 'one'",
    ("stream_id", "first"),
)
GROUP = Kind(
    "/v1/reader-groups/tests",
    {"streams": ["tests/one"]},
    "reader_groups",
    "INSERT INTO reader_groups (scope, reader_group, settings, revision, state, holder) "
    "SELECT scope, 'twin', settings, 7, state, (SELECT max(id) FROM controllers) "
    "FROM reader_groups WHERE reader_group = 'one'",
    ("revision", 7),
)


@pytest.fixture
def one(cluster: Cluster, tmp_path: Path) -> Iterator[Controllers]:
    with controllers(cluster, tmp_path, 1, lease_ms=10_000) as running:
        yield running


def _put(one: Controllers, kind: Kind, name: str) -> httpx.Response:
    url = f"{one.servers[0].url}{kind.path}/{name}"
    return httpx.put(url, json=kind.body, timeout=PATIENCE_S)


@contextmanager
def _created_elsewhere_meanwhile(one: Controllers, kind: Kind, waiting: int) -> Iterator[None]:
    """Let another controller create it, when so many have looked and wait to change something.

    They share a transaction, for the one before it is held up.
    """
    with (
        ThreadPoolExecutor() as threads,
        one.connect() as connection,
        connection.transaction(),
    ):
        connection.execute(f"LOCK TABLE {kind.table} IN SHARE ROW EXCLUSIVE MODE".encode())
        threads.submit(_put, one, kind, "before")
        wait_until(lambda: one.query(HELD_UP) == [(1,)])
        yield
        queue = f'_queue_length{{queue="changes"}} {waiting}.0'
        wait_until(lambda: queue in one.servers[0].metrics())
        for statement in (OTHER, kind.twin):
            connection.execute(statement.encode())


@pytest.mark.parametrize("kind", [STREAM, GROUP], ids=["stream", "group"])
def test_who_creates_what_another_controller_created_gets_that_and_others_what_they_asked_for(
    one: Controllers, kind: Kind
) -> None:
    (server,) = one.servers
    for each in (STREAM, GROUP):
        assert _put(one, each, "one").status_code == 201
    with ThreadPoolExecutor() as threads:
        with _created_elsewhere_meanwhile(one, kind, waiting=3):
            put = [threads.submit(_put, one, kind, "twin") for _ in range(2)]
            noted = threads.submit(note, server.url, "tests/one", 1, position=None)
        assert noted.result().status_code == 200
        answers = [each.result() for each in put]
    field, value = kind.told
    assert [(each.status_code, each.json()[field]) for each in answers] == [(200, value)] * 2
    assert "tidegauge_commit_failures_total 0.0" in server.metrics()
    created = server.log.read_text().count("stream created")
    assert created == (2 if kind is STREAM else 1)


def test_a_group_that_is_deleted_before_it_is_stored_was_created(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def statuses() -> list[int]:
        async with in_process(ServeSettings(database_url=database_url)) as (app, client):
            (await client.put(f"{STREAM.path}/one", json=EMBEDDED)).raise_for_status()
            parts, group = app.parts, f"{GROUP.path}/short-lived"
            write, go_on = parts.database.write, asyncio.Event()
            submit, submitted = parts.sequencer.submit, []

            async def write_later(*changes: Any, **more: Any) -> None:
                await go_on.wait()
                await write(*changes, **more)

            def submit_and_tell(decide: Any, *answer: Any) -> Any:
                submitted.append(getattr(decide, "func", None))
                return submit(decide, *answer)

            monkeypatch.setattr(parts.database, "write", write_later)
            monkeypatch.setattr(parts.sequencer, "submit", submit_and_tell)
            before = asyncio.ensure_future(client.put(f"{STREAM.path}/two", json=EMBEDDED))
            await until(lambda: parts.sequencer.busy_s > 0)
            creation = asyncio.ensure_future(client.put(group, json=GROUP.body))
            await until(lambda: parts.groups.find_or_add in submitted)
            deletion = asyncio.ensure_future(client.delete(group))
            await until(lambda: parts.groups.delete in submitted)
            go_on.set()
            answers = await asyncio.gather(before, creation, deletion, client.get(group))
            return [one.status_code for one in answers]

    assert asyncio.run(statuses()) == [201, 201, 204, 404]
