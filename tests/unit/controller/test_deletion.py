"""A stream that is deleted is gone at once; its rows are removed bit by bit."""

from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy import func, select

from controller.background.purging import Pace
from controller.database.statements import insert_rows
from controller.schema import deleted_streams, marks, streams
from tests.patience import wait_until
from tests.service.log_api import LogApi
from tests.service.sessions import connected
from tests.unit.conftest import Serve

pytestmark = pytest.mark.about_sql

NOW = 1_700_000_000_000


def _delete_with_many_marks(log: LogApi, url: str) -> int:
    """Give the only stream more marks than a step removes, and delete it; return its key."""
    log.create()
    with connected(url) as connection:
        key: int = connection.execute(select(streams.c.key)).scalar_one()
        rows = [(key, number, number, number, "{}", NOW) for number in range(1, 101)]
        insert_rows(connection, marks, rows)
    log.client.delete(log.path).raise_for_status()
    return key


def _count_marks(url: str, key: int) -> int:
    with connected(url) as connection:
        query = select(func.count()).select_from(marks).where(marks.c.stream_key == key)
        return int(connection.execute(query).scalar_one())


def _is_done(url: str) -> bool:
    with connected(url) as connection:
        return connection.execute(select(deleted_streams)).first() is None


def _marks(log: LogApi) -> list[Any]:
    return [(mark["revision"], mark["lower"]) for mark in log.get("marks")["marks"]]


def test_many_marks_go_in_the_background_and_after_a_restart(
    serve: Serve, database_url: str
) -> None:
    resting: Any = Pace.__init__.__kwdefaults__
    with patch.dict(resting, rest=1e9), serve() as log:  # after a step for ever
        key = _delete_with_many_marks(log, database_url)
        log.create()
        log.note_time(NOW, position={})
        log.client.delete(log.path).raise_for_status()
    assert _count_marks(database_url, key) > 0
    with serve() as log:
        log.create()
        log.note_time(NOW + 1, position={})
        wait_until(lambda: _is_done(database_url))
        assert _count_marks(database_url, key) == 0
        assert _marks(log) == [(1, NOW + 1)]
