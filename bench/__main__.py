"""Measure parts of Tidegauge, and print a row of a table for each figure: ``python -m bench [PART ...]``."""

import argparse
import sys
from importlib import import_module
from multiprocessing import Process

PARTS = (
    *("core", "service", "latency", "log", "start", "takeover", "producer"),
    *("spark", "kafka", "process", "windowed", "exactness", "backfill", "tables"),
)
"""The modules that measure; each is imported when its turn comes, since not all run in one environment."""
_USUAL = PARTS[:-1]
"""Tables need another environment, so they are measured only if you name them."""


def main() -> None:
    """Measure the named parts; a part that fails does not keep the others from being measured."""
    parser = argparse.ArgumentParser(
        "python -m bench",
        description=f"Measures parts of Tidegauge, by default all but {PARTS[-1]}, and prints "
        f"rows of a table. docs/benchmarks.md says what each measures: {', '.join(PARTS)}.",
        epilog="BENCH_SHORT=1 in the environment: one round of a tenth of the size, to see that a part works.",
    )
    parser.add_argument("parts", nargs="*", metavar="PART")
    parts = parser.parse_args().parts or _USUAL
    for part in set(parts) - set(PARTS):
        parser.error(f"no such part: {part}; there are {', '.join(PARTS)}")
    failed = []
    print("| part | what | measured | ratio or goal |\n|---|---|---|---|", flush=True)
    for part in parts:
        # Of its own: a JVM keeps the jars that it began with.
        process = Process(target=_measure, args=(part,))
        process.start()
        process.join()
        if process.exitcode:
            failed.append(part)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def _measure(part: str) -> None:
    for row in import_module(f"bench.{part}").measure():
        print("|", " | ".join((part, *row)), "|", flush=True)


if __name__ == "__main__":
    main()
