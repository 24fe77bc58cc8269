"""Lookups among marks, chunks and outcomes take a few rows of PostgreSQL and a few steps of SQLite."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Connection, event, text

from controller.database import upgrade_database
from controller.database.statements import replace_rows
from controller.log.codec import encode_chunks
from controller.log.embedded import EmbeddedLog
from controller.log.outcomes import (
    KeyedAnswer,
    LastBatch,
    Transaction,
    list_transactions,
    outcome_row,
    read_last_batches,
)
from controller.log.storage import first_offsets_reaching
from controller.schema import outcomes
from controller.store.marks import StoredMarks
from controller.store.truncation import Truncation
from tests.conftest import NewDatabase
from tests.service.log_service import batch_of
from tests.service.sessions import connected
from tidegauge.marks import Mark
from tidegauge.topology import Topology

pytestmark = pytest.mark.about_sql

MARKS = 20_000
CHUNKS = 4_000
"""In each of two segments, of two events each."""
MOST_ROWS, MOST_STEPS = 40, 10_000
_NUMBERS = (
    "WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < {})"
)
_FILL_MARKS = (
    "INSERT INTO marks (stream_key, revision, lower, upper, cut, created_ms) "
    + _NUMBERS.format(MARKS)
    + "SELECT 1, n, n, CASE WHEN n < 100 THEN n ELSE 1000000 END, '{}', 0 FROM numbers WHERE n > 0"
)
"""One writer once noted a time far ahead: from then on all marks have the same upper bound."""
_DATA = encode_chunks(batch_of([("a", 10**9, b"")]), writer=None, append_time=0)[0].message
_FILL_CHUNKS = (
    "INSERT INTO chunks "
    "(stream_key, segment, first_offset, events, running_time, size, data, append_time) "
    + _NUMBERS.format(2 * CHUNKS - 1)
    + "SELECT 1, 2 * (n % 2), n - n % 2, 2, n, 0, :data, 0 FROM numbers"
)
ENDED = Transaction("", "w", 1, 60_000, 0, "committed", finished_ms=1)
OPEN = ENDED._replace(id="7", state="open", finished_ms=None)


@pytest.fixture(scope="module")
def stored(
    new_database: NewDatabase, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Connection]:
    """Connect to a database with many marks, chunks and outcomes of one stream."""
    url = new_database(tmp_path_factory.mktemp("lookups"))
    upgrade_database(url)
    names = [f"{n}" for n in range(MARKS)]
    rows = [outcome_row(1, name, KeyedAnswer("", {}, 1)) for name in names]
    rows += [outcome_row(1, name, ENDED._replace(id=name)) for name in names]
    rows += [outcome_row(1, "7", OPEN), outcome_row(1, "w", LastBatch(5))]
    with connected(url) as connection:
        connection.execute(text(_FILL_MARKS))
        connection.execute(text(_FILL_CHUNKS), {"data": _DATA})
        replace_rows(connection, outcomes, rows)
        connection.exec_driver_sql("ANALYZE")
        yield connection


def _log(connection: Connection) -> EmbeddedLog:
    return EmbeddedLog.read(connection, 1, Topology.of_equal_ranges(3), Truncation.load(None))


def _revision(mark: Mark | None) -> int:
    assert mark is not None
    return mark.revision


def _marks(connection: Connection, **more: int) -> StoredMarks:
    return StoredMarks(connection, 1, **more)


LOOKUPS: dict[str, tuple[Callable[[Connection], Any], Any]] = {
    "count": (lambda one: len(_marks(one)), MARKS),
    "first from a time": (lambda one: _revision(_marks(one).first_from(10_000)), 10_000),
    "first from a time up to a revision": (
        lambda one: _revision(_marks(one, up_to=MARKS).first_from(7_000)),
        7_000,
    ),
    "upper below": (lambda one: _revision(_marks(one).newest_with_upper_below(50)), 49),
    "upper below, of many": (
        lambda one: _revision(_marks(one).newest_with_upper_below(2_000_000)),
        MARKS,
    ),
    "after": (lambda one: list(map(_revision, _marks(one).after(10_000, 1))), [10_001]),
    "at": (lambda one: _revision(_marks(one)[10_000]), 10_001),
    "last": (lambda one: len(_marks(one).last(10)), 10),
    "ends": (lambda one: _log(one).tails, {0: 2 * CHUNKS, 1: 0, 2: 2 * CHUNKS}),
    "running times": (
        lambda one: _log(one).running_times,
        {0: 2 * CHUNKS - 2, 2: 2 * CHUNKS - 1},
    ),
    "open transactions": (lambda one: list_transactions(one, 1, ["open"]), [OPEN]),
    "last batches": (lambda one: read_last_batches(one, 1), {"w": LastBatch(5)}),
}


@pytest.mark.parametrize(("look", "expected"), LOOKUPS.values(), ids=LOOKUPS)
def test_a_lookup_is_cheap(
    stored: Connection, look: Callable[[Connection], Any], expected: object
) -> None:
    with _cheap(stored):
        assert look(stored) == expected


def test_a_time_is_found_in_all_segments_by_one_cheap_query(stored: Connection) -> None:
    with _cheap(stored) as asked:
        assert first_offsets_reaching(stored, 1, [0, 2], 1_000) == {0: 1_000, 2: 1_000}
    assert len(asked) == 1


def test_what_is_not_cheap_would_be_seen(stored: Connection) -> None:
    with pytest.raises(AssertionError, match="too dear"), _cheap(stored):
        stored.exec_driver_sql("SELECT max(upper + 1) FROM marks").one()


@contextmanager
def _cheap(connection: Connection) -> Iterator[list[tuple[str, Any]]]:
    """Record the queries of this block, and check that each reads a few rows, or takes a few steps."""
    asked: list[tuple[str, Any]] = []

    @event.listens_for(connection, "before_cursor_execute")
    def remember(_one: object, _cursor: object, query: str, values: Any, *_: object) -> None:
        asked.append((query, values))

    thousands: list[None] = []
    driver: Any = connection.connection.driver_connection
    if connection.dialect.name == "sqlite":
        driver.set_progress_handler(lambda: thousands.append(None), 1_000)
    yield asked
    event.remove(connection, "before_cursor_execute", remember)
    assert asked
    if connection.dialect.name == "sqlite":
        driver.set_progress_handler(None, 0)
        assert len(thousands) * 1_000 < MOST_STEPS, "too dear"
        return
    for query, values in asked:
        explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {query}"
        found = connection.exec_driver_sql(explain, values).scalar_one()
        (explained,) = found if isinstance(found, list) else json.loads(found)
        assert _most_rows(explained["Plan"]) <= MOST_ROWS, f"too dear: {explained}"


def _most_rows(plan: dict[str, Any]) -> int:
    """Find the step of a plan that read most rows."""
    steps = plan.get("Plans", [])
    return max([int(plan["Actual Rows"]), *(_most_rows(step) for step in steps)])
