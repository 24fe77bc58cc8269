"""Connections without a client library."""

import re
import socket
from pathlib import Path

from tests.patience import wait_until


def wait_until_read(connection: socket.socket) -> None:
    """Wait until the server has taken everything out of its socket."""
    ends = connection.getpeername(), connection.getsockname()
    here, there = (f"{port:04X}" for _, port in ends)
    pattern = rf":{here} \w+:{there} 01 \w+:00000000 "
    wait_until(lambda: re.search(pattern, Path("/proc/net/tcp").read_text()) is not None)
