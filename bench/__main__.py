"""``python -m bench [core] [service] [latency] [log] [crowd] [history] [takeover] [scrape] [memory] [spark]``: all of them by default."""

import sys

from rich.console import Console
from rich.table import Table

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


def main() -> None:
    """Measure the parts that are named, and print a table."""
    named = sys.argv[1:] or list(PARTS)
    unknown = sorted(set(named) - set(PARTS))
    if unknown:
        sys.exit(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    table = Table("part", "what", "measured", "ratio or goal")
    console = Console()
    for part in named:
        with console.status(f"measuring {part}"):
            for row in PARTS[part]():
                table.add_row(part, *row)
    console.print(table)


main()
