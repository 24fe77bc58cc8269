"""Waiting for what the demo does, until it fails or takes too long."""

import time
from collections.abc import Callable
from math import inf
from pathlib import Path

from rich.console import Console

_LOOK_EVERY_S = 0.1


class DemoFailedError(RuntimeError):
    """Something that the demo shows did not come true."""


def run_part(console: Console, work: Callable[[], int]) -> int:
    """Run a part of the demo and return its exit status."""
    try:
        return work()
    except DemoFailedError as error:
        console.print(f"[bold red]{error}")
        return 1


def run_whole(output: Path, work: Callable[[Console], int]) -> int:
    """Run a demo that leaves nothing but its results, in a folder; returns its exit status."""
    console = Console(soft_wrap=True)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        console.print(f"[bold red]the results cannot be written: {error}")
        return 1
    return run_part(console, lambda: work(console))


def wait_until(
    done: Callable[[], object],
    what: str,
    *,
    go_on: Callable[[], None] = lambda: None,
    show: Callable[[], None] = lambda: None,
    every_s: float = 3.0,
    patience_s: float = 120.0,
) -> None:
    """Wait for something, and show how things stand every few seconds.

    What there is to do meanwhile is done several times a second, and once more at the end; it
    raises if the wait is in vain. So does a wait that takes too long.
    """
    began_s, shown_s = time.monotonic(), -inf
    while not done():
        go_on()
        now_s = time.monotonic()
        if now_s - began_s > patience_s:
            msg = f"waited {patience_s:.0f} s for {what}"
            raise DemoFailedError(msg)
        if now_s - shown_s >= every_s:
            shown_s = now_s
            show()
        time.sleep(_LOOK_EVERY_S)
    go_on()
