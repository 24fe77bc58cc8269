"""What Python processes take before they do anything: those of Spark by their role, and commands."""

import resource
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence

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
_COMMANDS = {"--version": "≤ 0.15 s", "--help": "≤ 0.3 s"}


def measure() -> Iterator[tuple[str, str, str]]:
    """Start each by turns, so that all meet the same machine, and compare the medians."""
    python = [sys.executable, "-c"]
    medians = _medians([[*python, one] for one in _CODE])
    for (code, goal), median in zip(_CODE.items(), medians, strict=True):
        ratio = f"{median / medians[0]:.2f} of the first" + (f" ({goal})" if goal else "")
        yield code, f"{median * 1_000:.0f} ms of processor", ratio
    command = [sys.executable, "-m", "tidegauge_cli"]
    medians = _medians([[*command, one] for one in _COMMANDS])
    for (word, goal), median in zip(_COMMANDS.items(), medians, strict=True):
        yield f"tidegauge {word}", f"{median * 1_000:.0f} ms of processor", goal


def _medians(commands: Sequence[Sequence[str]]) -> list[float]:
    rounds = [[_seconds(one) for one in commands] for _ in range(_ROUNDS)]
    return [statistics.median(one) for one in zip(*rounds, strict=True)]


def _seconds(command: Sequence[str]) -> float:
    """Return what a process took of the processor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
