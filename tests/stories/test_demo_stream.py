"""The stream that the demo replays its flights into."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar

import pytest

from examples.flights.address import StreamAddress
from examples.flights.carriers import REPLAYED
from reader_client import StreamClient
from tests.patience import wait_until
from tests.server import Api, ServerProcess
from writer_client import Writer

pytestmark = pytest.mark.only_on("sqlite", "the demo's service has a file")

UNAVAILABLE = {"code": "unavailable", "reason": "the database is away"}
UNKNOWN = {"code": "unknown_stream", "stream": "demo/away"}
LOST = {"code": "outcome_unknown", "reason": "the holder was lost"}
MARK = {"revision": 1, "lower": 1, "upper": 1, "cut": {}, "final": True}


def test_a_carrier_with_a_flight_in_the_air_is_waited_for_however_slow_the_replay_is(
    shared_server: ServerProcess,
) -> None:
    stream = "demo/slow"
    StreamAddress(shared_server.url, stream).create(segments=1, **REPLAYED)
    with Api(shared_server.url, stream) as api:
        api.note("AA", 1_357_030_000_000)
        api.note("HA", 1_357_020_000_000)
        api.note("AA", 1_357_060_000_000)
        held = api.get("watermark")["explanation"]
    assert (held["holders"][0]["writer"], held["waiting"]) == ("HA", ["AA"])
    assert held["next_expiry_ms"] is None  # it is never dropped


@pytest.mark.soak
def test_every_flight_lands_however_fast_the_replay_is(shared_server: ServerProcess) -> None:
    stream = "demo/fast"
    options = [f"--url={shared_server.url}", f"--stream={stream}", "--days=1"]
    command = [sys.executable, "-m", "examples.flights", "producer", *options]
    subprocess.run([*command, "--speed=1e10"], check=True, timeout=50)
    described = StreamAddress(shared_server.url, stream).describe()
    assert described is not None
    assert (described.final, sum((described.tail or {}).values())) == (True, 690)


@pytest.mark.soak
def test_an_interrupted_replay_goes_on_where_it_was(shared_server: ServerProcess) -> None:
    stream = "demo/interrupted"
    address = StreamAddress(shared_server.url, stream)
    with _producer(shared_server, stream, speed="50000") as producer:
        wait_until(lambda: 100 < _rows(address) < 600)
        producer.send_signal(signal.SIGTERM)
        assert producer.wait(timeout=50) == -signal.SIGTERM
    broke_off = _rows(address)
    assert broke_off < 690
    with _producer(shared_server, stream, speed="1e10") as producer:
        assert producer.wait(timeout=50) == 0
    described = address.describe()
    assert described is not None
    assert (described.final, _rows(address)) == (True, 690)
    assert _late_events(shared_server.url, stream) == []


def _late_events(url: str, stream: str) -> list[tuple[int, int]]:
    """List the events that lie behind a mark and are older than it."""
    with StreamClient(url, stream) as reader:
        marks = [one for one in reader.marks() if not one.final]
        times = [
            (segment, offset, time)
            for segment, end in reader.tail().tail.items()
            for events in reader.read(segment, 0, end)
            for offset, time in enumerate(
                events.batch.column("event_time").to_pylist(), events.first_offset
            )
        ]
    assert any(any(mark.cut.values()) for mark in marks)
    return [
        (segment, offset)
        for mark in marks
        for segment, offset, time in times
        if offset >= mark.cut.get(segment, 0) and time < mark.lower
    ]


def test_a_replay_into_flights_of_another_one_says_what_to_type(
    shared_server: ServerProcess, capfd: pytest.CaptureFixture[str]
) -> None:
    stream = "demo/another"
    StreamAddress(shared_server.url, stream).create(segments=1, **REPLAYED)
    with Writer(shared_server.url, stream, "AA") as writer:
        writer.write("something else", key="AA-JFK", event_time=1_357_020_000_000)
    with _producer(shared_server, stream, speed="1e10") as producer:
        assert producer.wait(timeout=50) == 1
    assert f"begin anew: tidegauge delete {stream} --yes" in capfd.readouterr().err


def test_a_replay_that_is_over_says_so(
    shared_server: ServerProcess, capfd: pytest.CaptureFixture[str]
) -> None:
    address = StreamAddress(shared_server.url, "demo/over")
    address.create(segments=1, **REPLAYED)
    address.seal()
    address.seal()
    with _producer(shared_server, "demo/over", speed="1") as producer:
        assert producer.wait(timeout=50) == 0
    assert "these flights were replayed before" in capfd.readouterr().out


def _rows(address: StreamAddress) -> int:
    stream = address.describe()
    return 0 if stream is None else sum((stream.tail or {}).values())


@contextmanager
def _producer(
    server: ServerProcess, stream: str, *, speed: str
) -> Iterator[subprocess.Popen[bytes]]:
    options = [f"--url={server.url}", f"--stream={stream}", "--days=1", f"--speed={speed}"]
    with subprocess.Popen(
        [sys.executable, "-m", "examples.flights", "producer", *options]
    ) as process:
        try:
            yield process
        finally:
            process.kill()


class _Away(BaseHTTPRequestHandler):
    """A service that is away for longer than a person at a shell would wait."""

    began_s = 0.0
    calls: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        away = time.monotonic() - self.began_s < 4
        self._answer(503, UNAVAILABLE) if away else self._answer(404, UNKNOWN)

    def do_POST(self) -> None:
        self.calls.append(self.path)
        sealed = {"stream_id": "1", "watermark": 1, "final": True, "mark": MARK}
        first = len(self.calls) == 1
        self._answer(502, LOST) if first else self._answer(200, sealed)

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self, status: int, document: Any) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def away() -> Iterator[StreamAddress]:
    _Away.began_s = time.monotonic()
    _Away.calls.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), _Away) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield StreamAddress(f"http://127.0.0.1:{server.server_port}", "demo/away")
        server.shutdown()


def test_the_producer_waits_for_a_service_that_is_away(away: StreamAddress) -> None:
    assert away.describe() is None


def test_sealing_is_repeated_until_it_is_done(away: StreamAddress) -> None:
    away.seal()
    assert _Away.calls == ["/v1/streams/demo/away/seal"] * 2
