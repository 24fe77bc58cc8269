"""The driver of a query that follows a topic is killed, and nothing is lost or put out twice."""

import json
from pathlib import Path
from random import Random

import pytest

from tests.effort import Effort
from tests.server import ServerProcess
from tests.spark.drivers import driver, end_of, kill_later
from tests.spark.topic_feed import TopicFeed
from tidegauge_cli.demo.kafka.broker import Broker

_STEPS = 8


@pytest.mark.timeout(3_600)
def test_a_killed_driver_goes_on_with_the_windows_that_are_left(
    broker: Broker,
    shared_server: ServerProcess,
    driver_home: str,
    tmp_path: Path,
    effort: Effort,
) -> None:
    chance, log = Random(1), tmp_path / "driver.log"
    with TopicFeed(broker.bootstrap, shared_server.url) as feed:
        for step in range(_STEPS):
            feed.write(*range(5_000 * step, 5_000 * (step + 1), 500), partition=step % 2)
            feed.note(5_000 * (step + 1))
        feed.seal()
        command = ["-m", "tests.spark.follow_driver", broker.bootstrap, feed.url, feed.topic]
        command.append(str(tmp_path))
        for _ in range(effort.times("kills", short=1, long=12)):
            with driver(*command, home=driver_home, log=log) as process:
                kill_later(process, tmp_path / "checkpoint", chance.uniform(0, 2))
        with driver(*command, home=driver_home, log=log) as process:
            assert end_of(process, log) == 0
    rows = [row for one in tmp_path.glob("*.json") for row in json.loads(one.read_text())]
    assert sorted(rows) == [[5_000 * step, 10] for step in range(_STEPS)]
