"""HEAD is answered like GET, without the body, where load balancers and browsers ask for it."""

import httpx
import pytest

from tests.server import ServerProcess


@pytest.mark.parametrize(
    "path",
    ["/", "/healthz", "/readyz", "/docs", "/docs/assets/swagger-ui.css", "/openapi.json"],
)
def test_head_announces_what_get_would_bring(shared_server: ServerProcess, path: str) -> None:
    with httpx.Client(base_url=shared_server.url) as client:
        head, get = client.head(path), client.get(path)
    assert head.status_code == get.status_code
    assert head.headers["content-length"] == get.headers["content-length"]
    assert head.content == b""


@pytest.mark.parametrize(
    ("path", "allowed"),
    [("/v1/streams", "GET"), ("/v1/note-times", "POST"), ("/metrics", "GET")],
)
def test_head_is_refused_where_calls_are_made(
    shared_server: ServerProcess, path: str, allowed: str
) -> None:
    head = httpx.head(shared_server.url + path)
    assert (head.status_code, head.headers["allow"]) == (405, allowed)
