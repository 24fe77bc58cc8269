"""A load generator: many writers that report in turn, at a fixed rate, on loopback."""

import asyncio
import sys
from collections import deque
from time import perf_counter
from typing import NamedTuple, Protocol, cast
from urllib.parse import urlsplit

_TICK_S = 0.002
_REPORTS_PER_MS = 10


class Crowd(NamedTuple):
    """Writers that report one after another, each again when all others have.

    Report number n is of time ``first_ms + n / 10``: 10 000 reports are a second. The writers of a
    stream report one right after the other if ``together``, as behind a gateway; otherwise the
    streams take turns.
    """

    streams: int
    writers: int  # of each stream
    segments: int  # of each stream
    named: int  # segments that a report names
    first_ms: int  # event time of report 0
    together: bool = False

    def stream(self, at: int) -> str:
        """Name a stream."""
        return f"bench/crowd-{at}"

    def time_ms(self, number: int) -> int:
        """Tell the time of a report."""
        return self.first_ms + number // _REPORTS_PER_MS

    def position(self, number: int) -> str:
        """Write the position of a report, which only rises."""
        first = number // (self.streams * self.writers)
        segments = ((first + at) % self.segments for at in range(self.named))
        entries = ",".join(f'"{segment}":{number}' for segment in segments)
        return "{" + entries + "}"

    def place(self, number: int) -> tuple[int, int]:
        """Tell the stream and the writer of a report."""
        if self.together:
            block, writer = divmod(number, self.writers)
            return block % self.streams, writer
        turn, stream = divmod(number, self.streams)
        return stream, turn % self.writers

    def deciding(self, stream: int, lower_ms: int) -> int:
        """Find the report after which every writer of a stream has reached a time."""
        first = (lower_ms - self.first_ms) * _REPORTS_PER_MS
        if self.together:
            block = -(-first // self.writers)
            block += (stream - block) % self.streams
            return block * self.writers + self.writers - 1
        first += (stream - first) % self.streams
        return first + (self.writers - 1) * self.streams


class Singles:
    """Requests of one report each."""

    per_request, connections = 1, 64

    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd

    def request(self, number: int) -> bytes:
        """Write the request of a report."""
        stream, writer = self._crowd.place(number)
        path = f"/v1/streams/{self._crowd.stream(stream)}/writers/writer-{writer}/note-time"
        body = f'{{"time":{self._crowd.time_ms(number)},"position":{self._crowd.position(number)}}}'
        return _post(path, body)


class Bulks:
    """Requests of many reports each."""

    per_request, connections = 500, 4

    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd

    def request(self, number: int) -> bytes:
        """Write the request of the reports from one on."""
        crowd, reports = self._crowd, []
        for one in range(number, number + self.per_request):
            stream, writer = crowd.place(one)
            reports.append(
                f'{{"stream":"{crowd.stream(stream)}","writer":"writer-{writer}",'
                f'"time":{crowd.time_ms(one)},"position":{crowd.position(one)}}}'
            )
        return _post("/v1/note-times", f'{{"reports":[{",".join(reports)}]}}')


def _post(path: str, body: str) -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n{body}"
    ).encode()


class Requests(Protocol):
    """Requests to send, by the number of the first report of each."""

    per_request: int
    connections: int

    def request(self, number: int) -> bytes:
        """Write one."""


class Generator:
    """Sends reports in order over as many connections as such requests have.

    Each connection waits for its answer. The first report has the number ``begin_at``.
    """

    def __init__(self, url: str, requests: Requests, *, begin_at: int = 0) -> None:
        self._host, _, port = urlsplit(url).netloc.rpartition(":")
        self._port = int(port)
        self._requests = requests
        self._count = requests.connections
        self._idle: deque[_Connection] = deque()
        self._refused: list[bytes] = []
        self.sent: list[float] = [0.0] * begin_at
        """When each report was sent, by number."""
        self.most_late = 0.0
        """By how many seconds a report was sent later than it was due."""
        self.waits_s: list[float] = []
        """How long each answer took, in no order."""

    async def connect(self) -> None:
        """Open the connections."""
        loop = asyncio.get_running_loop()
        for _ in range(self._count):
            _, connection = await loop.create_connection(
                lambda: _Connection(self._idle, self._refused, self.waits_s),
                self._host,
                self._port,
            )
            self._idle.append(connection)

    async def run(self, count: int, *, rate: float, most_s: float) -> None:
        """Send some reports at a rate; what is due while all connections wait goes later."""
        begun, first, step = perf_counter(), len(self.sent), self._requests.per_request
        async with asyncio.timeout(most_s):
            while len(self.sent) < first + count:
                if self._refused:
                    sys.exit(f"a report was refused:\n{self._refused[0].decode()}")
                due = first + int(rate * (perf_counter() - begun))
                while self._idle and len(self.sent) + step <= min(due, first + count):
                    number = len(self.sent)
                    self._idle.popleft().send(self._requests.request(number))
                    now = perf_counter()
                    late = now - begun - (number - first) / rate
                    self.most_late = max(self.most_late, late)
                    self.sent.extend([now] * step)
                await asyncio.sleep(_TICK_S)

    async def settle(self) -> None:
        """Wait for all answers."""
        async with asyncio.timeout(60):
            while len(self._idle) < self._count:  # noqa: ASYNC110 (nothing tells)
                await asyncio.sleep(_TICK_S)

    def close(self) -> None:
        """Close the connections."""
        for connection in self._idle:
            connection.close()


class _Connection(asyncio.Protocol):
    """Sends a request at a time, and goes back among the idle when it is answered."""

    def __init__(
        self, idle: "deque[_Connection]", refused: list[bytes], waits_s: list[float]
    ) -> None:
        self._idle = idle
        self._refused = refused
        self._waits_s = waits_s
        self._sent_at = 0.0
        self._answer = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def send(self, request: bytes) -> None:
        self._sent_at = perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, separator, body = self._answer.partition(b"\r\n\r\n")
        _, _, length = head.lower().partition(b"content-length:")
        if not separator or len(body) < int(length.split(b"\r\n", 1)[0]):
            return
        if not head.startswith(b"HTTP/1.1 200") or b'"status":4' in body:
            self._refused.append(self._answer)
        self._answer = b""
        self._waits_s.append(perf_counter() - self._sent_at)
        self._idle.append(self)

    def close(self) -> None:
        self._transport.close()
