"""What Python processes take before they do anything: those of Spark by their role, and commands."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from bench.harness import Rounds, Row, in_turn, service
from reader_client import StreamClient

_ROUNDS = 15
_BASE = "import pyspark.sql, pyarrow"
_CODE = {
    _BASE: "the baseline",
    "import spark_source.data_source": "≤ 1.3",
    "from spark_source import read_stream": "≤ 1.3",
    "import spark_source.data_source, reader_client; reader_client.StreamClient": "no goal",
    "import spark_source.sink.sink": "no goal",
}
_STREAM = "bench/start"
_COMMANDS = {
    "--version": "≤ 0.15 s",
    "--help": "≤ 0.25 s",
    "streams": "≤ 0.45 s",
    f"why {_STREAM}": "≤ 0.45 s",
}


def measure() -> Iterator[Row]:
    """Start each in turn, and compare the medians of processor time."""
    seconds = _in_turn({code: [sys.executable, "-c", code] for code in _CODE})
    for code, goal in _CODE.items():
        ratio = f"{seconds.ratio(code, _BASE):.2f} of it ({goal})"
        yield code, _ms(seconds, code), goal if code == _BASE else ratio
    with service() as (url, _), StreamClient(url, _STREAM) as client:
        client.create()
        os.environ["TIDEGAUGE_URL"] = url
        tidegauge = str(Path(sys.executable).with_name("tidegauge"))
        seconds = _in_turn({words: [tidegauge, *words.split()] for words in _COMMANDS})
    for words, goal in _COMMANDS.items():
        yield f"tidegauge {words}", _ms(seconds, words), goal


def _in_turn(commands: dict[str, list[str]]) -> Rounds:
    ways = {name: partial(_processor_s, command) for name, command in commands.items()}
    return in_turn(ways, rounds=_ROUNDS)


def _ms(seconds: Rounds, name: str) -> str:
    return f"{seconds.median(name) * 1_000:.0f} ms of processor"


def _processor_s(command: Sequence[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
