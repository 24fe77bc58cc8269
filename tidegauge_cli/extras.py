"""Which extra brings a package that is missing."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needs_extra(name: str) -> Iterator[None]:
    """Turn a missing package into the command that installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        sys.exit(f"{error.name} is not installed; run: pip install 'tidegauge[{name}]'")
