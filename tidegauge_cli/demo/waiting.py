"""Waiting for what the demo does, until it fails, takes too long or is interrupted."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_LOOK_EVERY_S = 0.1


class DemoFailedError(RuntimeError):
    """Something that the demo shows did not come true."""


def wait_until(
    done: Callable[[], bool],
    what: str,
    *,
    check: Callable[[], None],
    patience_s: float = 120.0,
) -> None:
    """Wait for something.

    Parameters
    ----------
    done
        Whether it has happened.
    what
        How to call it.
    check
        Raises if it cannot happen any more.
    patience_s
        How long it may take.

    Raises
    ------
    DemoFailedError
        If it takes longer.
    """
    deadline = time.monotonic() + patience_s
    while not done():
        check()
        if time.monotonic() > deadline:
            msg = f"waited {patience_s:.0f} s for {what}"
            raise DemoFailedError(msg)
        time.sleep(_LOOK_EVERY_S)


def watch_until(
    done: Callable[[], bool],
    show: Callable[[], None],
    *,
    go_on: Callable[[], None],
    every_s: float = 3.0,
) -> None:
    """Show how things stand every few seconds, until something has happened.

    What there is to do meanwhile is done several times a second, and once more at the end; it
    raises if the wait is in vain.
    """
    shown = 0.0
    while not done():
        go_on()
        if time.monotonic() - shown >= every_s:
            shown = time.monotonic()
            show()
        time.sleep(_LOOK_EVERY_S)
    go_on()


@contextmanager
def interruptible() -> Iterator[None]:
    """End at SIGTERM as at Ctrl-C."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


@contextmanager
def interrupted_later() -> Iterator[None]:
    """Put an interruption off: one while Spark starts would leave its JVM behind for ever."""
    came: list[int] = []

    def remember(number: int, _frame: FrameType | None) -> None:
        came.append(number)

    former = {one: signal.signal(one, remember) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for one, handler in former.items():
            signal.signal(one, handler)
    if came:
        raise KeyboardInterrupt
