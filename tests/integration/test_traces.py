"""Traces: sent to a collector when they are wanted, and not even imported when they are not."""

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.conftest import NewServer
from tests.server import Api

pytestmark = pytest.mark.only_on("sqlite", "no database has a part in it")

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
DOCUMENTED_S = 15
UNTRACED = """
import sys, controller
assert "opentelemetry.sdk" not in sys.modules
"""


class Collector:
    """What an OpenTelemetry collector would receive over HTTP."""

    def __init__(self) -> None:
        received = self.received = list[ExportTraceServiceRequest]()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                received.append(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def spans(self) -> list[Any]:
        return [
            span
            for request in self.received
            for of_resource in request.resource_spans
            for of_scope in of_resource.scope_spans
            for span in of_scope.spans
        ]


@pytest.fixture
def collector() -> Iterator[Collector]:
    receiving = Collector()
    thread = threading.Thread(target=receiving.server.serve_forever)
    thread.start()
    yield receiving
    receiving.server.shutdown()
    thread.join()
    receiving.server.server_close()


def test_calls_are_traced_as_parts_of_what_their_callers_trace(
    new_server: NewServer, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    with new_server(traces=True) as server, Api(server.url) as api:
        api.client.headers["traceparent"] = f"00-{TRACE}-{PARENT}-01"
        api.create()
        api.note("w", 7)
        api.post("writers/w/leave")
        api.client.get("/healthz").raise_for_status()
        assert server.stop() == 0
    stream = "/v1/streams/{scope}/{stream}"
    spans = collector.spans()
    assert [span.name for span in spans] == [
        f"PUT {stream}",
        f"POST {stream}/writers/{{writer}}/leave",
    ]
    for span in spans:
        assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
    said = {one.key: one.value for one in spans[1].attributes}
    assert said["http.response.status_code"].int_value == 200
    assert said["url.path"].string_value == f"{api.path}/writers/w/leave"
    resource = collector.received[0].resource_spans[0].resource
    assert "tidegauge" in {one.value.string_value for one in resource.attributes}


def test_a_token_that_is_sent_as_a_parameter_shows_in_no_span(
    new_server: NewServer, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    with new_server(traces=True) as server, Api(server.url) as api:
        api.client.get("/v1/streams?limit=1&token=tg_secret-_1")
        assert server.stop() == 0
    (span,) = collector.spans()
    said = {one.key: one.value.string_value for one in span.attributes}
    assert said["url.query"] == "limit=1&token=tg_…"


@pytest.mark.parametrize("listening", [True, False], ids=["hangs", "is away"])
def test_the_service_ends_in_time_though_the_collector_takes_no_traces(
    new_server: NewServer, monkeypatch: pytest.MonkeyPatch, *, listening: bool
) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        if listening:
            deaf.listen()
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1000")
        with new_server(traces=True) as server, Api(server.url) as api:
            api.create()
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(timeout=DOCUMENTED_S) == 0
    assert server.log.read_text().count("the last traces are given up") == 1


def test_who_wants_no_traces_does_not_even_import_what_makes_them() -> None:
    subprocess.run([sys.executable, "-c", UNTRACED], check=True)
