"""The same watermark, and a processor, over Spark Connect."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.feed import DAY, Feed

TOKEN = "tg_that_a_service_without_tokens_takes_too"


@pytest.fixture
def said(
    feed: Feed, checkpoint: str, tmp_path: Path, spark_home: Path
) -> Iterator[Iterator[dict[str, object]]]:
    """What a query over Spark Connect prints."""
    command = [sys.executable, "-m", "tests.spark.connect_query", feed.url, feed.stream]
    with subprocess.Popen(
        [*command, checkpoint, TOKEN, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"SPARK_HOME": str(spark_home)},
    ) as query:
        assert query.stdout is not None
        yield (json.loads(line) for line in query.stdout if line.startswith("{"))
        query.kill()


def test_windows_close_exactly_errors_are_short_and_no_log_shows_the_token(
    feed: Feed, said: Iterator[dict[str, object]], tmp_path: Path
) -> None:
    feed.write(4_000, 4_999, key="seen")
    feed.write(9_999, key="unseen")
    feed.note(4_999)
    assert next(said) == {
        "refuses": True,
        "told": "tidegauge.errors.UnknownStreamError: unknown_stream: there is no stream "
        "spark/none; to create it: tidegauge create spark/none (in Python StreamClient.create, over "
        "HTTP PUT /v1/streams/spark/none)",
    }
    assert next(said) == {"rows": [], "dropped": 0}
    feed.note(5_000)
    assert next(said) == {"rows": [[DAY, 2]], "dropped": 0}
    feed.write(5_000, key="seen")
    feed.seal()
    assert next(said) == {"rows": [[DAY, 2], [DAY + 5_000, 1]], "dropped": 0}
    assert next(said) == {
        "processed": [
            ["seen", DAY + 4_015, "OFF"],
            ["seen", DAY + 5_015, "OFF"],
            ["unseen", DAY + 10_014, "OFF"],
        ]
    }
    logged = "".join(one.read_text() for one in tmp_path.glob("eventlog*/events*"))
    assert "*********(redacted)" in logged
    assert TOKEN not in logged
