"""However many marks there are, a lookup reads a few rows: PostgreSQL tells what it read."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, event, text

from controller.mark_storage import StoredMarks
from tests.postgres import Cluster

MARKS = 20_000
FEW = 40
_FILL = text(
    "INSERT INTO marks (stream_key, revision, lower, upper, cut, created_ms) "
    "SELECT 1, n, n, CASE WHEN n < 100 THEN n ELSE 1000000 END, '{}', 0 "
    f"FROM generate_series(1, {MARKS}) AS n"
)
"""One writer once noted a time far ahead: from then on all marks have the same upper bound."""


@pytest.fixture(scope="module")
def marks(cluster: Cluster) -> Iterator[Connection]:
    """Connect to a database with many marks."""
    engine = create_engine(cluster.database().replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        connection.execute(_FILL)
        connection.execute(text("ANALYZE marks"))
        yield connection
    engine.dispose()


def _most_rows(plan: dict[str, object]) -> int:
    """Find the step of a plan that read most rows."""
    steps = plan.get("Plans", [])
    assert isinstance(steps, list)
    return max([int(str(plan["Actual Rows"])), *(_most_rows(one) for one in steps)])


@pytest.mark.parametrize(
    "look",
    [
        lambda marks: marks.newest,
        lambda marks: marks.first_from(10_000),
        lambda marks: marks.newest_with_upper_below(50),
        lambda marks: marks.newest_with_upper_below(2_000_000),
        lambda marks: marks.after(10_000, 1),
        lambda marks: marks[10_000],
    ],
)
def test_a_lookup_reads_few_rows(
    marks: Connection, look: Callable[[StoredMarks], object]
) -> None:
    asked: list[tuple[str, Any]] = []

    @event.listens_for(marks, "before_cursor_execute")
    def remember(
        _connection: object, _cursor: object, query: str, values: Any, *_: object
    ) -> None:
        asked.append((query, values))

    assert look(StoredMarks(marks, 1))
    event.remove(marks, "before_cursor_execute", remember)
    for query, values in asked:
        explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {query}"
        found = marks.exec_driver_sql(explain, values).scalar_one()
        (explained,) = found if isinstance(found, list) else json.loads(found)
        assert _most_rows(explained["Plan"]) <= FEW, explained
