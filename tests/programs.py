"""Programs that tests start, and that end with them."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def python(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """Run Python, what it says being readable, and end it whatever happens."""
    pipe = subprocess.PIPE
    command = [sys.executable, *arguments]
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()
