"""``python -m bench [PART ...]``: all parts but ``tables`` by default; ``--help`` tells what each measures."""

import argparse
import ast
import sys
import traceback
from importlib import import_module
from pathlib import Path

from rich.console import Console

PARTS = {
    "core": "core",
    "service": "service",
    "latency": "latency",
    "log": "log",
    "producer": "kafka_producer",
    "scaling": "scaling",
    "ancestry": "ancestry",
    "transactions": "transactions",
    "crowd": "crowd",
    "history": "history",
    "takeover": "takeover",
    "scrape": "scrape",
    "overviews": "overviews",
    "dashboard": "dashboard",
    "memory": "memory",
    "spark": "spark_source",
    "start": "start",
    "kafka": "kafka",
    "process": "process",
    "windowed": "windowed",
    "exactness": "exactness",
    "backfill": "backfill",
    "tables": "tables",
}
"""The modules that measure; one is imported when its turn comes, since not all run in one environment."""
_ELSEWHERE = {"tables"}
"""Parts that another environment is needed for, and so are measured only if they are named."""
_HEAD = ("part", "what", "measured", "ratio or goal"), ("---",) * 4


def main() -> None:
    """Measure the parts that are named, and print each row of a table once it is there."""
    subjects = {part: _subject(module) for part, module in PARTS.items()}
    parser = argparse.ArgumentParser(
        "python -m bench",
        description="Measures parts of Tidegauge, by default all but tables, and prints rows of a table.",
        epilog="parts:\n" + "\n".join(f"  {part:<10}{what}" for part, what in subjects.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "parts", nargs="*", type=_part, metavar="PART", help="one of those below"
    )
    named = parser.parse_args().parts or [one for one in PARTS if one not in _ELSEWHERE]
    console = Console()
    for row in _HEAD:
        _print(console, row)
    failed = [part for part in named if not _measure(console, part)]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def _subject(module: str) -> str:
    """Read what a part measures: the first line of its module."""
    text = Path(__file__).with_name(f"{module}.py").read_text()
    return (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]


def _part(name: str) -> str:
    if name not in PARTS:
        msg = f"no such part: {name}; there are {', '.join(PARTS)}"
        raise argparse.ArgumentTypeError(msg)
    return name


def _measure(console: Console, part: str) -> bool:
    """Measure a part, and say whether it went well; the others go on if it did not."""
    try:
        with console.status(f"measuring {part}"):
            for row in import_module(f"bench.{PARTS[part]}").measure():
                _print(console, (part, *row))
    except (Exception, SystemExit):  # noqa: BLE001 (it is shown)
        traceback.print_exc()
        return False
    return True


def _print(console: Console, row: tuple[str, ...]) -> None:
    console.print(f"| {' | '.join(row)} |", markup=False, highlight=False, soft_wrap=True)


main()
