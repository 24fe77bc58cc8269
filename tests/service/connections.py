"""Connections without a client library."""

import json
import re
import socket
from pathlib import Path

from tests.patience import PATIENCE_S, wait_until
from tests.server import ServerProcess
from tidegauge.client.blocks import Closing

JSON = "content-type: application/json"


def request(call: str, *headers: str, body: bytes = b"") -> bytes:
    """Write a request of these headers, and what there is of its body."""
    return (
        "\r\n".join([f"{call} HTTP/1.1", "host: localhost", *headers, "", ""]).encode() + body
    )


class Connection(Closing):
    """A connection that sends exactly what it is given."""

    def __init__(self, server: ServerProcess, data: bytes = b"") -> None:
        self._socket = socket.create_connection(("127.0.0.1", server.port), PATIENCE_S)
        self._file = self._socket.makefile("rb")
        self.send(data)

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def answer(self) -> tuple[int, str]:
        """Read the next answer: its status and, if it is a refusal, its code."""
        status = int(self._file.readline().split()[1])
        length = 0
        while (line := self._file.readline().strip()) != b"":
            name, _, value = line.partition(b": ")
            length = int(value) if name == b"content-length" else length
        return status, json.loads(self._file.read(length)).get("code", "")

    def status(self) -> int:
        return self.answer()[0]

    def is_closed(self) -> bool:
        return self._file.read(1) == b""

    def wait_until_read(self) -> None:
        """Wait until the server has taken everything out of its socket."""
        ends = self._socket.getpeername(), self._socket.getsockname()
        here, there = (f"{port:04X}" for _, port in ends)
        pattern = rf":{here} \w+:{there} 01 \w+:00000000 "
        wait_until(lambda: re.search(pattern, Path("/proc/net/tcp").read_text()) is not None)
