"""``python -m bench [core] [service] [latency] [log] [crowd] [history] [takeover] [scrape] [memory] [spark]``: all of them by default."""

import sys
import traceback

from rich.console import Console

from bench import (
    core,
    crowd,
    formats,
    history,
    latency,
    log,
    memory,
    scrape,
    service,
    spark_source,
    takeover,
)

PARTS = {
    "core": core.measure,
    "service": service.measure,
    "formats": formats.measure,
    "latency": latency.measure,
    "log": log.measure,
    "crowd": crowd.measure,
    "history": history.measure,
    "takeover": takeover.measure,
    "scrape": scrape.measure,
    "memory": memory.measure,
    "spark": spark_source.measure,
}


_HEAD = ("part", "what", "measured", "ratio or goal"), ("---",) * 4


def main() -> None:
    """Measure the parts that are named, and print each row of a table once it is there."""
    named = sys.argv[1:] or list(PARTS)
    unknown = sorted(set(named) - set(PARTS))
    if unknown:
        sys.exit(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    console = Console()
    for row in _HEAD:
        _print(console, row)
    failed = [part for part in named if not _measure(console, part)]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def _measure(console: Console, part: str) -> bool:
    """Measure a part, and say whether it went well; the others go on if it did not."""
    try:
        with console.status(f"measuring {part}"):
            for row in PARTS[part]():
                _print(console, (part, *row))
    except (Exception, SystemExit):  # noqa: BLE001 (it is shown)
        traceback.print_exc()
        return False
    return True


def _print(console: Console, row: tuple[str, ...]) -> None:
    console.print(f"| {' | '.join(row)} |", markup=False, highlight=False, soft_wrap=True)


main()
