"""A stream that is deleted is gone at once; its rows are removed bit by bit."""

from pathlib import Path

import pytest
from sqlalchemy import func, select

from controller.database.statements import insert_rows
from controller.schema import deleted_streams, marks, streams
from tests.patience import wait_until
from tests.server import LAUNCHER, Api, ServerProcess
from tests.service.controllers import LEASE_MS
from tests.service.sessions import connected

pytestmark = pytest.mark.about_sql

NOW = 1_700_000_000_000
MARKS = 100  # more than a step removes, few enough for the pace of a busy machine
AFTER_A_STEP_FOR_EVER_AT_REST = """
from controller.background.purging import Pace
Pace.__init__.__kwdefaults__["rest"] = 1e9
"""


def _make_marks(url: str) -> int:
    """Give the only stream many marks, and tell its key."""
    with connected(url) as connection:
        key = connection.execute(select(streams.c.key)).scalar_one()
        rows = [(key, number, number, number, "{}", NOW) for number in range(1, MARKS + 1)]
        insert_rows(connection, marks, rows)
    return int(key)


def _count_marks(url: str, key: int) -> int:
    with connected(url) as connection:
        query = select(func.count()).select_from(marks).where(marks.c.stream_key == key)
        return int(connection.execute(query).scalar_one())


def _is_done(url: str) -> bool:
    with connected(url) as connection:
        return connection.execute(select(deleted_streams)).first() is None


def test_many_marks_go_in_the_background_and_after_a_restart(
    tmp_path: Path, database_url: str
) -> None:
    launcher = AFTER_A_STEP_FOR_EVER_AT_REST + LAUNCHER
    resting = ServerProcess(
        tmp_path, database_url=database_url, launcher=launcher, lease_ms=LEASE_MS
    )
    with resting, Api(resting.url) as api:
        key = _delete_with_many_marks(api, database_url)
        api.create()
        api.note("w", NOW, 1)
        assert [mark["revision"] for mark in api.get("marks")["marks"]] == [1]
        api.client.delete(api.path).raise_for_status()
    assert _count_marks(database_url, key) > 0
    with ServerProcess(tmp_path, database_url=database_url) as server, Api(server.url) as api:
        api.create()
        api.note("w", NOW + 1, 1)
        wait_until(lambda: _is_done(database_url))
        assert _count_marks(database_url, key) == 0
        assert [mark["lower"] for mark in api.get("marks")["marks"]] == [NOW + 1]


def _delete_with_many_marks(api: Api, database_url: str) -> int:
    api.create()
    key = _make_marks(database_url)
    api.client.delete(api.path).raise_for_status()
    assert api.client.get(api.path).status_code == 404
    return key
