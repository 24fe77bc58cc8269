"""What a new user reads first does what it says, block by block, from an empty service on."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.server import ServerProcess

ROOT = Path(__file__).parents[2]
TUTORIALS = ROOT / "docs" / "tutorials"
_BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture
def one_session(spark: SparkSession) -> Iterator[SparkSession]:
    """The session that the pages get, too, and set to their needs."""
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    yield spark
    for query in spark.streams.active:
        query.stop()
    assert partitions is not None
    spark.conf.set("spark.sql.shuffle.partitions", partitions)


class Reader:
    """Does what pages say: commands in a shell, Python here, and what Spark prints into tables."""

    def __init__(self, url: str, spark: SparkSession, scope: str) -> None:
        self._url, self._spark, self._scope = url, spark, scope
        self._names: dict[str, Any] = {}
        self._tables: list[str] = []
        self._variables = ""

    def follow(self, text: str) -> None:
        for language, block in _BLOCK.findall(text):
            mine = block.replace("http://127.0.0.1:8470", self._url)
            mine = mine.replace("demo/", f"{self._scope}/")
            if language == "sh":
                self._type(mine)
            else:
                exec(self._into_tables(mine), self._names)
            for query in self._spark.streams.active:
                query.processAllAvailable()

    def printed(self) -> list[int]:
        """How many rows each query has printed."""
        return [self._spark.table(one).count() for one in self._tables]

    def _type(self, commands: str) -> None:
        commands = re.sub(r"^tidegauge ui.*$", "", commands, flags=re.MULTILINE)
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = os.environ | {"PATH": path, "TIDEGAUGE_URL": self._url}
        script = self._variables + commands
        subprocess.run(
            ["bash", "-ec", script], env=environment, check=True, capture_output=True
        )
        self._variables += "".join(re.findall(r"^\w+=.*\n", commands, re.MULTILINE))

    def _into_tables(self, code: str) -> str:
        def table(_: re.Match[str]) -> str:
            self._tables.append(f"{self._scope}_{len(self._tables)}")
            return f'.format("memory").queryName("{self._tables[-1]}")'

        code = re.sub(r'\.format\("console"\)', table, code)
        return re.sub(r"(spark\.streams)?\.awaitA?n?y?Termination\(\)", "", code)


@pytest.mark.every_spark
def test_the_readme_ends_with_exact_windows(
    shared_server: ServerProcess, one_session: SparkSession
) -> None:
    text = (ROOT / "README.md").read_text()
    reader = Reader(shared_server.url, one_session, "readme")
    reader.follow(text[text.index("## Your first watermark") :])
    assert reader.printed() == [9]
    assert len(text.splitlines()) <= 170


def test_the_tutorials_close_a_window_and_show_a_late_row(
    shared_server: ServerProcess, one_session: SparkSession
) -> None:
    reader = Reader(shared_server.url, one_session, "tutorial")
    reader.follow((TUTORIALS / "first-watermark.md").read_text())
    reader.follow((TUTORIALS / "exact-window.md").read_text())
    # The window that the note closes is the tenth; the event of a broken promise is in none.
    assert reader.printed() == [10, 10, 1]
