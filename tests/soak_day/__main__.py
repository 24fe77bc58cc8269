"""Run a day: ``python -m tests.soak_day --hours 24``; Ctrl-C ends it, and judges what there is."""

import argparse
import asyncio
import logging
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from tests.soak_day.day import Day, Options

_INSIDE = "TIDEGAUGE_SOAK_DAY"


def main() -> int:
    """Run it in a session of its own, so that Ctrl-C ends the day, and not those who take part."""
    options = _options()
    if _INSIDE in os.environ:
        return asyncio.run(_run(options))
    command = [sys.executable, "-m", "tests.soak_day", *sys.argv[1:]]
    environment = os.environ | {_INSIDE: "1"}
    with subprocess.Popen(command, env=environment, start_new_session=True) as inside:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: inside.send_signal(signal.SIGINT))
        try:
            return inside.wait()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(inside.pid, signal.SIGKILL)


async def _run(options: Options) -> int:
    day = Day(options)
    logging.basicConfig(filename=options.folder / "clients.log")
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, day.over.set)
    await day.run()
    heading = f"seed {options.seed}, {options.rate:g} events/s, {day.told()}"
    is_well, page = day.readings.summary(heading, day.broken)
    print(f"{page}\n{options.folder}/day.png, summary.txt and samples.jsonl")  # noqa: T201
    return 0 if is_well else 1


def _options() -> Options:
    parser = argparse.ArgumentParser(prog="python -m tests.soak_day", description=__doc__)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--rate", type=float, default=50.0, help="events a second in all")
    parser.add_argument("--kill-every", type=float, help="seconds; 60, in a short run less")
    parser.add_argument("--seed", type=int, help="of kills and scalings")
    parser.add_argument("--folder", type=Path, help="for results; soak-day/ and the time")
    given = parser.parse_args()
    return Options(
        seconds=given.hours * 3_600,
        rate=given.rate,
        kill_every_s=given.kill_every or min(60.0, given.hours * 3_600 / 15),
        seed=random.randrange(10**6) if given.seed is None else given.seed,
        folder=(given.folder or Path("soak-day", time.strftime("%Y%m%d-%H%M%S"))).absolute(),
    )


if __name__ == "__main__":
    sys.exit(main())
