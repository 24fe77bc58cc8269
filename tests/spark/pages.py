"""Pages that a test follows as a reader does: commands in a shell, Python here."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.linked import ROOT

TUTORIALS = ROOT / "docs" / "tutorials"
_BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


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
