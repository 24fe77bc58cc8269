"""A batch of the Spark source may span more marks than are kept in memory."""

import json
from collections.abc import Iterator

import pytest

from reader_client import StreamClient
from spark_source.logs.embedded import EmbeddedLog
from spark_source.source.follower import Follower
from spark_source.source.planner import Limits, Offset, plan, time_to_reach
from tests.patience import wait_until
from tests.service.api import MINUTE, NOON, Open

SECOND = 1_000
HOUR = 60 * MINUTE
SECONDS = 9_000
"""One mark in each: far more than are kept."""
TWO_HOURS = Limits(admission="marks", max_event_time_ms=2 * HOUR)


@pytest.fixture
def followed(open_shop: Open) -> Iterator[tuple[Follower, Offset]]:
    """A stream of so many marks, and a query that has read up to the first."""
    shop = open_shop(log="embedded", mark_resolution_ms=0)
    events = "\n".join(json.dumps({"key": "k", "value": "v"}) for _ in range(SECONDS))
    shop.client.post(
        f"{shop.path}/events", content=events, headers={"content-type": "application/x-ndjson"}
    ).raise_for_status()
    for begun in range(0, SECONDS, 500):
        shop.many(
            {"writer": "api-1", "time": NOON + second * SECOND, "position": {"0": second}}
            for second in range(begun, begun + 500)
        )
    start = Offset(shop.get("watermark")["stream_id"], {0: 0}, NOON, 1, 1)
    client = StreamClient(str(shop.client.base_url), shop.name)
    follower = Follower(EmbeddedLog(client), client, start)
    yield follower, start
    follower.stop()


def test_a_batch_ends_where_its_event_time_does(followed: tuple[Follower, Offset]) -> None:
    follower, start = followed

    def next_end() -> Offset:
        view = follower.view(start, time_to_reach(start, TWO_HOURS))
        return plan(start, view, TWO_HOURS, run=1, is_settled=False)

    wait_until(lambda: next_end() != start)
    assert next_end() == Offset(start.stream_id, {0: 7_200}, NOON + 2 * HOUR, 7_201, 1)


def test_a_query_that_drains_the_stream_does_not_end_before(
    followed: tuple[Follower, Offset],
) -> None:
    follower, start = followed
    ends = []
    while True:
        view = follower.frozen_view(start, time_to_reach(start, TWO_HOURS))
        end = plan(start, view, TWO_HOURS, run=1, is_settled=True)
        if end == start:
            break
        ends.append(end.revision)
        start = end
    assert ends == [7_201]


def test_marks_that_no_batch_has_to_wait_for_are_kept(
    followed: tuple[Follower, Offset],
) -> None:
    follower, start = followed
    wait_until(lambda: len(follower.view(start, None).marks) >= 4_000)
    assert [mark.revision for mark in follower.view(start, None).marks[:3]] == [2, 3, 4]
