"""Old marks go in the background: groups keep theirs, and ``kill -9`` in the midst harms nothing."""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, insert, select

from controller.schema import marks
from tests.effort import Effort
from tests.patience import wait_until
from tests.server import Api, ServerProcess

pytestmark = pytest.mark.about_sql

NOW = 1_700_000_000_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
MARKS = 3_000
GROUP_AT = 1_234


def _fill(engine: Engine, count: int, *, step_ms: int, age_ms: int) -> None:
    """Store marks as if they had been made some time ago: revision n at offset n, one a step."""
    made = time.time_ns() // 1_000_000 - age_ms
    rows = [
        {
            "stream_key": 1,
            "revision": n,
            "lower": NOW + n * step_ms,
            "upper": NOW + n * step_ms,
            "cut": f'{{"0":{n}}}',
            "created_ms": made,
        }
        for n in range(1, count + 1)
    ]
    with engine.begin() as connection:
        connection.execute(insert(marks), rows)


def _revisions(engine: Engine) -> list[int]:
    with engine.connect() as connection:
        return list(connection.scalars(select(marks.c.revision).order_by(marks.c.revision)))


def _until_fewer(engine: Engine, wanted: int) -> None:
    wait_until(lambda: len(_revisions(engine)) <= wanted)


@contextmanager
def _with_marks(
    directory: Path,
    url: str,
    *,
    count: int,
    group_at: int,
    step_ms: int,
    age_ms: int,
    **settings: object,
) -> Iterator[tuple[ServerProcess, Api, Engine]]:
    server, engine = ServerProcess(directory, database_url=url), create_engine(url)
    with server, Api(server.url) as api:
        api.create(log="embedded", **settings)
        lines = "\n".join(['{"key": "k", "value": "v"}'] * count)
        content_type = {"content-type": "application/x-ndjson"}
        api.client.post(f"{api.path}/events", content=lines, headers=content_type)
        _make_group(api, group_at)
        server.kill()
        _fill(engine, count, step_ms=step_ms, age_ms=age_ms)
        server.start()
        yield server, api, engine
    engine.dispose()


def _make_group(api: Api, position: int) -> None:
    wanted = {"streams": ["tests/one"], "start_cut": {"tests/one": {"0": position}}}
    api.client.put("/v1/reader-groups/tests/slow", json=wanted).raise_for_status()


def _window(api: Api) -> int:
    answer = api.client.get("/v1/reader-groups/tests/slow/time-window?stream=tests/one")
    lower: int = answer.raise_for_status().json()["lower"]
    return lower


def test_a_kill_in_the_midst_of_thinning_harms_nothing(
    tmp_path: Path, database_url: str, effort: Effort
) -> None:
    with _with_marks(
        tmp_path, database_url, count=MARKS, group_at=GROUP_AT, step_ms=10, age_ms=2 * HOUR_MS
    ) as (server, api, engine):
        left, chance = MARKS, random.Random(8470)
        for _ in range(effort.times("kills", short=1, long=3)):
            _until_fewer(engine, left - chance.randrange(1, 700))
            server.kill()
            left = len(_revisions(engine))
            server.start()
            assert _window(api) == NOW + GROUP_AT * 10
            assert api.get("watermark")["mark"]["revision"] == MARKS
        expected = {1, GROUP_AT, MARKS, *range(100, MARKS, 100)}
        _until_fewer(engine, len(expected))
        assert _revisions(engine) == sorted(expected)
        assert _window(api) == NOW + GROUP_AT * 10
        at = api.get("marks/at", time=NOW + 23_210)
        assert at["stop"]["cut"] == {"0": 2_400}
        assert api.get("marks", after=0, limit=3)["marks"][1]["revision"] == 100


def test_what_is_older_than_the_retention_goes_but_what_groups_need(
    tmp_path: Path, database_url: str
) -> None:
    with _with_marks(
        tmp_path,
        database_url,
        count=300,
        group_at=123,
        step_ms=10_000,
        age_ms=2 * DAY_MS,
        mark_retention_ms=DAY_MS,
    ) as (_, api, engine):
        _until_fewer(engine, 3)
        assert _revisions(engine) == [1, 123, 300]
        assert _window(api) == NOW + 1_230_000
        there = api.get("marks/at", position="0:200")
        assert (there["lower"], there["upper"]) == (NOW + 1_230_000, NOW + 3_000_000)
