"""Which extra brings a package that is missing."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needs_extra(name: str) -> Iterator[None]:
    """Turn a package that is missing or too old into the command that installs it.

    Ctrl-C meanwhile ends the program as a signal does: an exception may come out of anything
    that is being imported, or be lost there.
    """
    is_usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_usual:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    except ImportError as error:
        from tidegauge.extras import how_to_install, needed  # noqa: PLC0415 (it ends anyway)

        sys.exit(f"tidegauge needs {needed(error)}; {how_to_install(name)}")
    finally:
        if is_usual:
            signal.signal(signal.SIGINT, signal.default_int_handler)
