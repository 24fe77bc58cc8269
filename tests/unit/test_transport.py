"""What the clients make of addresses and answers that are not those of the service."""

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tidegauge.transport import Transport, UnexpectedAnswerError
from tidegauge.wire.streams import StreamInfo


class _Stranger(BaseHTTPRequestHandler):
    """Answers with the status that the path names, and with a page for people."""

    def do_GET(self) -> None:
        self.send_response(int(self.path.removeprefix("/")))
        self.send_header("content-length", "13")
        self.end_headers()
        self.wfile.write(b"<p>Hello.</p>")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def stranger() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Stranger) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("status", [200, 307, 404, 502])
def test_an_answer_of_somebody_else_is_named(stranger: str, status: int) -> None:
    async def ask() -> None:
        transport = Transport(stranger)
        try:
            await transport.request("GET", f"/{status}", answer=StreamInfo, retry=True)
        finally:
            await transport.aclose()

    with pytest.raises(UnexpectedAnswerError) as caught:
        asyncio.run(ask())
    assert (caught.value.status, caught.value.body) == (status, "<p>Hello.</p>")


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8470", "localhost:8470", "ftp://one", "http://", "http://one:port", ""]
)
def test_an_address_that_cannot_be_is_refused_at_once(url: str) -> None:
    with pytest.raises(ValueError, match="write http://HOST:PORT"):
        Transport(url)
