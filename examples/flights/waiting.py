"""Waiting for what a replay does, until it fails or takes too long."""

import time
from collections.abc import Callable

_EVERY_S = 0.1
_SHOW_EVERY_S = 5.0


class FlightsError(RuntimeError):
    """A replay failed, or what came of it is not as it has to be."""


def wait_until(
    done: Callable[[], object],
    what: str,
    *,
    go_on: Callable[[], None] = lambda: None,
    show: Callable[[], None] = lambda: None,
    patience_s: float = 120.0,
) -> None:
    """Wait for something; call ``go_on``, which raises if that is in vain, and now and then ``show``."""
    began_s = shown_s = time.monotonic()
    while not done():
        go_on()
        now_s = time.monotonic()
        if now_s - began_s > patience_s:
            msg = f"waited {patience_s:.0f} s for {what}"
            raise FlightsError(msg)
        if now_s - shown_s > _SHOW_EVERY_S:
            shown_s = now_s
            show()
        time.sleep(_EVERY_S)
