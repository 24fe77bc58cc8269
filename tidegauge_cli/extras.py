"""Which extra brings a package that is missing."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needs_extra(name: str) -> Iterator[None]:
    """Turn a missing package into the command that installs it.

    Ctrl-C meanwhile ends the program as a signal does: an exception may come out of anything
    that is being imported, or be lost there.
    """
    try:
        with _ended_by_ctrl_c():
            yield
    except ModuleNotFoundError as error:
        sys.exit(f"{error.name} is not installed; run: pip install 'tidegauge[{name}]'")


@contextmanager
def _ended_by_ctrl_c() -> Iterator[None]:
    is_mine = threading.current_thread() is threading.main_thread()
    if not is_mine or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
