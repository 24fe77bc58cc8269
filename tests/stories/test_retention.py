"""Old marks go in the background: groups keep theirs, and ``kill -9`` in the midst harms nothing."""

import random
import time

import pytest
from sqlalchemy import Connection, insert, select

from controller.schema import marks
from tests.effort import Effort
from tests.patience import wait_until
from tests.server import ServerProcess
from tests.service.api import Api
from tests.service.sessions import connected

pytestmark = pytest.mark.about_sql

NOW = 1_700_000_000_000
HOUR_MS = 3_600_000
MARKS, GROUP_AT = 3_000, 1_234
GROUP = "/v1/reader-groups/tests/slow"


def _fill(connection: Connection) -> None:
    """Store marks as if they had been made two hours ago: revision n at offset n, one every 10 ms."""
    made = time.time_ns() // 1_000_000 - 2 * HOUR_MS
    rows = [
        {
            "stream_key": 1,
            "revision": n,
            "lower": NOW + n * 10,
            "upper": NOW + n * 10,
            "cut": f'{{"0":{n}}}',
            "created_ms": made,
        }
        for n in range(1, MARKS + 1)
    ]
    connection.execute(insert(marks), rows)


def _revisions(server: ServerProcess) -> list[int]:
    with connected(server.database_url) as connection:
        return list(connection.scalars(select(marks.c.revision).order_by(marks.c.revision)))


def _window(api: Api) -> int:
    answer = api.client.get(f"{GROUP}/time-window?stream=tests/one")
    lower: int = answer.raise_for_status().json()["lower"]
    return lower


def test_a_kill_in_the_midst_of_thinning_harms_nothing_and_groups_keep_what_they_need(
    server: ServerProcess, api: Api, effort: Effort
) -> None:
    api.create(log="embedded")
    lines = "\n".join(['{"key": "k", "value": "v"}'] * MARKS)
    content_type = {"content-type": "application/x-ndjson"}
    api.client.post(f"{api.path}/events", content=lines, headers=content_type)
    wanted = {"streams": ["tests/one"], "start_cut": {"tests/one": {"0": GROUP_AT}}}
    api.client.put(GROUP, json=wanted).raise_for_status()
    server.kill()
    with connected(server.database_url) as connection:
        _fill(connection)
    server.start()
    left, chance = MARKS, random.Random(8470)
    for _ in range(effort.times("kills", short=1, long=3)):
        most = left - chance.randrange(1, 700)
        wait_until(lambda most=most: len(_revisions(server)) <= most)  # type: ignore[misc]
        server.kill()
        left = len(_revisions(server))
        server.start()
        assert _window(api) == NOW + GROUP_AT * 10
        assert api.get("watermark")["mark"]["revision"] == MARKS
    expected = sorted({1, GROUP_AT, MARKS, *range(100, MARKS, 100)})
    wait_until(lambda: len(_revisions(server)) <= len(expected))
    assert _revisions(server) == expected
    assert _window(api) == NOW + GROUP_AT * 10
    at = api.get("marks/at", time=NOW + 23_210)
    assert at["stop"]["cut"] == {"0": 2_400}
    assert api.get("marks", after=0, limit=3)["marks"][1]["revision"] == 100
