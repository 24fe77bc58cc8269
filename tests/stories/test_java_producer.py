"""A producer in another language, written after the guide alone."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.broker import JVM, Broker
from tests.kafka import create_topic
from tests.kafka_jars import broker_jars
from tests.service.api import Api
from tidegauge.client.kafka import Topic

pytestmark = [
    pytest.mark.only_on("sqlite", "clients know the service only"),
    pytest.mark.skipif(shutil.which("javac") is None, reason="there is no JDK"),
]

EXAMPLE = Path(__file__).parents[2] / "examples" / "NotingOrders.java"
_NEWEST = 1_704_110_400_000 + 100 * 999


def test_the_example_in_java_notes_what_it_has_stored(
    open_shop: Callable[..., Api],
    broker: Broker,
    tmp_path: Path,
) -> None:
    shop = open_shop(segments=2)
    create_topic(broker.bootstrap, shop.topic, partitions=2, retention_ms=-1)
    jars = f"{broker_jars()}/*"
    places = broker.bootstrap, shop.url, shop.name
    for command in (
        [
            "javac",
            *(f"-J{flag}" for flag in JVM),
            "-Werror",
            "-d",
            str(tmp_path),
            "-cp",
            jars,
            str(EXAMPLE),
        ],
        ["java", *JVM, "-cp", f"{tmp_path}:{jars}", "NotingOrders", *places],
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
    ends = Topic({"bootstrap.servers": broker.bootstrap}, shop.topic).ends()
    assert sum(ends.values()) == 1_000
    assert shop.mark == (_NEWEST, {str(number): end for number, end in ends.items()})
    assert shop.explanation()["states"]["left"] == 1
