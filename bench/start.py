"""What Python processes take before they do anything: those of Spark by their role, and commands."""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.servers import service
from reader_client import StreamClient

_ROUNDS = 15
_BASE = "import pyspark.sql, pyarrow"
_CLIENT = "import spark_source.data_source, reader_client; reader_client.StreamClient"
_CODE = {
    _BASE: "",
    "from spark_source import read_stream": "≤ 1.3",
    "import spark_source.data_source": "≤ 1.3",
    f"{_BASE}, pydantic, httpx; pydantic.BaseModel": "what the client is made of",
    _CLIENT: "",
    f"{_CLIENT}; import spark_source.source.rows": "",
    "import spark_source.sink.sink": "",
}
_STREAM = "bench/start"
_COMMANDS = {
    "--version": "≤ 0.15 s",
    "--help": "≤ 0.25 s",
    "streams": "≤ 0.45 s",
    f"why {_STREAM}": "≤ 0.45 s",
}
_COMPLETION = {
    "_TIDEGAUGE_COMPLETE": "complete_bash",
    "COMP_WORDS": "tidegauge w",
    "COMP_CWORD": "1",
}


def measure() -> Iterator[tuple[str, str, str]]:
    """Start each by turns, so that all meet the same machine, and compare the medians."""
    python = [sys.executable, "-c"]
    medians = _medians([[*python, one] for one in _CODE])
    for (code, goal), median in zip(_CODE.items(), medians, strict=True):
        ratio = f"{median / medians[0]:.2f} of the first" + (f" ({goal})" if goal else "")
        yield code, f"{median * 1_000:.0f} ms of processor", ratio
    with tempfile.TemporaryDirectory() as folder, service(Path(folder)) as url:
        yield from _of_commands(url)


def _of_commands(url: str) -> Iterator[tuple[str, str, str]]:
    with StreamClient(url, _STREAM) as client:
        client.create()
    command = str(Path(sys.executable).with_name("tidegauge"))
    asked = ["env", *(f"{name}={value}" for name, value in _COMPLETION.items()), command]
    os.environ["TIDEGAUGE_URL"] = url
    medians = _medians([[command, *words.split()] for words in _COMMANDS] + [asked])
    goals = {**_COMMANDS, "w<TAB>": "that of --help"}
    for (words, goal), median in zip(goals.items(), medians, strict=True):
        yield f"tidegauge {words}", f"{median * 1_000:.0f} ms of processor", goal


def _medians(commands: Sequence[Sequence[str]]) -> list[float]:
    rounds = [[_seconds(one) for one in commands] for _ in range(_ROUNDS)]
    return [statistics.median(one) for one in zip(*rounds, strict=True)]


def _seconds(command: Sequence[str]) -> float:
    """Return what a process took of the processor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
