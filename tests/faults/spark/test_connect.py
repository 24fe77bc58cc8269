"""The same watermark, a processor, windows and Kafka, over Spark Connect."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from reader_client import ReaderGroup
from tests.patience import wait_until
from tests.quick_spark import quick_environment
from tests.spark.feed import DAY, Feed
from tests.spark.kafka_feed import KafkaFeed
from tests.spark.targets import Target
from tidegauge.event_time import END_OF_TIME
from writer_client import Writer

TOKEN = "tg_that_a_service_without_tokens_takes_too"


@pytest.fixture
def counted(feed: Feed) -> Iterator[Target]:
    """The stream that the query writes to."""
    with Target(feed.url, f"{feed.stream}-counted") as target:
        target.create()
        yield target


@pytest.fixture
def said(feed: Feed, topic: KafkaFeed, tmp_path: Path) -> Iterator[Iterator[dict[str, object]]]:
    """What the queries print; over a topic of which all is there, and a stream that has ended."""
    topic.create()
    topic.write(1_000, 4_000)
    topic.note(5_000)
    with Feed(feed.url, f"{feed.stream}-early") as early:
        early.create()
        early.write(-1_000 - DAY, key="early")  # which Spark's own operators would drop
        early.seal()
    command = [sys.executable, "-m", "tests.spark.connect_query", feed.url, feed.stream]
    with subprocess.Popen(
        [*command, TOKEN, str(tmp_path), topic.bootstrap, topic.topic],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | quick_environment(),
    ) as query:
        assert query.stdout is not None
        yield (json.loads(line) for line in query.stdout if line.startswith("{"))
        query.kill()


def _late_writers(group: ReaderGroup) -> dict[str, int]:
    progress = group.describe().progress
    return {} if progress is None else progress.late_writers


@pytest.mark.every_spark
def test_windows_close_exactly_late_rows_are_reported_errors_are_short_and_no_log_shows_the_token(
    feed: Feed, counted: Target, said: Iterator[dict[str, object]], tmp_path: Path
) -> None:
    feed.write(4_000, 4_999, key="seen")
    feed.write(9_999, key="unseen")
    feed.note(4_999)
    assert next(said) == {
        "touched": "TouchedLoadError",
        "none": "tidegauge.errors.UnknownStreamError: unknown_stream: there is no stream "
        "spark/none; to create it: tidegauge create spark/none (in Python StreamClient.create, over "
        "HTTP PUT /v1/streams/spark/none)",
    }
    assert next(said) == {"rows": [], "dropped": 0, "late": {}}
    feed.note(5_000)
    assert next(said) == {"rows": [[DAY, 2]], "dropped": 0, "late": {}}
    with Writer(feed.url, feed.stream, "liar") as liar:
        liar.write(b"v", key="seen", event_time=DAY + 4_000)
    with ReaderGroup(feed.url, f"{feed.stream}-group") as group:
        wait_until(lambda: _late_writers(group) == {"liar": 1})
    feed.write(5_000, key="seen")
    feed.seal()
    assert next(said) == {
        "rows": [[DAY, 2], [DAY + 5_000, 1]],
        "dropped": 0,
        "late": {"liar": 1},
    }
    wait_until(lambda: counted.watermark == END_OF_TIME)
    assert [(time, count) for _, time, count in counted.counts()] == [(10_000, 1)]
    assert next(said) == {
        "processed": [
            ["seen", DAY + 4_015, "OFF"],
            ["seen", DAY + 5_015, "OFF"],
            ["unseen", DAY + 10_014, "OFF"],
        ]
    }
    assert next(said) == {"read": [[DAY, 2]], "followed": [[DAY, 2]]}
    assert next(said) == {
        "windows": [
            ["early", 0, 1],
            ["seen", DAY + 5_000, 3],
            ["seen", DAY + 10_000, 1],
            ["unseen", DAY + 10_000, 1],
        ],
        "late": [],
    }
    logged = "".join(file.read_text() for file in tmp_path.glob("eventlog*/events*"))
    assert "*********(redacted)" in logged
    assert TOKEN not in logged
