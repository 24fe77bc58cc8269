"""Probes tell the truth: of locks, lost files, batches without an end and starts that take long."""

import asyncio
import re
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path

import httpx
import pytest
from sqlalchemy import text

from controller import process
from controller.configuration import ServeSettings
from controller.http.app import ControllerApp, create_app
from controller.streams.registry import Registry
from tests.patience import until, wait_until
from tests.service.api import Api
from tests.service.in_process import in_process
from tests.service.problems import REPORT, TIME, check_problem
from tests.service.sessions import connected, write_lock
from tests.unit.conftest import Serve

Reasons = list[str] | None
PROBES = "/healthz", "/readyz"
LOST = ["the database is not the one that was opened; the log says why"]


def _reasons(answer: httpx.Response) -> Reasons:
    """Read the answer to a probe; None is all right."""
    if answer.is_success:
        assert answer.json() == {"status": "ok"}
        return None
    problem = check_problem(answer, 503, "unhealthy")
    assert problem["detail"] == "; ".join(problem["reasons"])
    reasons: list[str] = problem["reasons"]
    return reasons


def _probe(api: Api, path: str = "/readyz") -> Reasons:
    return _reasons(api.client.get(path))


@pytest.fixture
def api(serve: Serve) -> Iterator[Api]:
    with serve() as api:
        yield api


def test_a_batch_that_comes_to_no_end_makes_it_dead_until_it_does(
    serve: Serve, database_url: str
) -> None:
    endless = re.compile(r"a batch of changes has not come to an end for \d+\.\d s")
    with serve(max_stall_ms=300) as api:

        def tells(path: str) -> bool:
            return any(map(endless.fullmatch, _probe(api, path) or []))

        with write_lock(database_url):
            for path in PROBES:
                wait_until(partial(tells, path))
        for path in PROBES:
            wait_until(lambda path=path: _probe(api, path) is None)  # type: ignore[misc]


@pytest.mark.anyio
async def test_an_event_loop_that_was_blocked_makes_it_dead(database_url: str) -> None:
    async with in_process(ServeSettings(database_url=database_url)) as (app, _):
        app.parts.clocks.listening._stamped_at -= 600_000
        (reason,) = app.parts.health.ailments()
        assert re.fullmatch(r"the event loop was blocked for 60\d\.\d s", reason)


def test_a_lock_of_another_process_does_not_hold_up_the_event_loop(
    api: Api, database_url: str
) -> None:
    api.create()
    noting = threading.Thread(target=lambda: api.note("w", TIME))
    with write_lock(database_url):
        noting.start()
        for _ in range(20):
            assert _probe(api, "/healthz") is None
        assert noting.is_alive()
    noting.join()
    assert api.get("watermark")["watermark"] == TIME


@pytest.mark.only_on("sqlite", "PostgreSQL keeps its own files")
@pytest.mark.parametrize("replaced", [False, True])
def test_a_database_file_that_was_lost_makes_it_not_ready(
    api: Api,
    database_url: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    *,
    replaced: bool,
) -> None:
    file = Path(database_url.removeprefix("sqlite:///"))
    file.rename(tmp_path / "elsewhere.db")
    if replaced:
        with closing(sqlite3.connect(file)) as other:
            other.execute("CREATE TABLE t (x)")
    assert [_probe(api), _probe(api)] == [LOST, LOST]
    said = f"{file} was removed or replaced while it was served"
    assert caplog.text.count(f"does not answer as it should: {said}") == 1
    assert _probe(api, "/healthz") is None
    file.unlink(missing_ok=True)
    (tmp_path / "elsewhere.db").rename(file)
    assert _probe(api) is None


def test_another_schema_makes_it_not_ready(
    api: Api, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    change = text("UPDATE alembic_version SET version_num = :version")
    with connected(database_url) as other:
        version = other.execute(text("SELECT version_num FROM alembic_version")).scalar_one()
        other.execute(change, {"version": "9999"})
    assert _probe(api) == LOST
    assert "has schema 9999" in caplog.text
    with connected(database_url) as other:
        other.execute(change, {"version": version})
    assert _probe(api) is None


@asynccontextmanager
async def _reading_back(
    database_url: str, monkeypatch: pytest.MonkeyPatch, go: threading.Event
) -> AsyncIterator[tuple[ControllerApp, httpx.AsyncClient]]:
    """Start a service that reads its streams back until it may go on."""
    restore = Registry.restore_all

    async def restore_slowly(self: Registry) -> None:
        await restore(self)
        await self._database.read(lambda _: go.wait())

    monkeypatch.setattr(Registry, "restore_all", restore_slowly)
    monkeypatch.setattr(process, "_QUICK_START_S", 0)
    app = create_app(ServeSettings(database_url=database_url))
    await app.process.begin()
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://tests") as client:
        await until(lambda: app.process.tenure is not None)
        yield app, client


@pytest.mark.anyio
async def test_while_streams_are_read_back_it_is_alive_but_not_ready(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, note = "/v1/streams/tests/one", "/v1/streams/tests/one/writers/w/note-time"
    go = threading.Event()
    async with _reading_back(database_url, monkeypatch, go) as (app, client):
        assert _reasons(await client.get("/healthz")) is None
        reading = ["the service is reading its streams back"]
        assert _reasons(await client.get("/readyz")) == reading
        for _ in range(3):
            early = await client.post(note, json=REPORT)
            check_problem(early, 503, "unavailable")
            assert early.headers["retry-after"] == "1"
        assert (await client.get("/metrics")).is_success
        go.set()
        await until(lambda: app.process.holds)
        assert _reasons(await client.get("/readyz")) is None
        settings = {"log": "external", "segments": 1}
        assert (await client.put(stream, json=settings)).is_success
        await app.process.close()


@pytest.mark.anyio
async def test_stopped_while_streams_are_read_back_it_ends(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = threading.Event()
    async with _reading_back(database_url, monkeypatch, go) as (app, _):
        closing_it = asyncio.create_task(app.process.close())
        await asyncio.sleep(0)
        go.set()
        await asyncio.wait_for(closing_it, 60)
        assert not app.process.failed
