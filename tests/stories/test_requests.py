"""What is a matter of the server below the application: HEAD, and addresses without an end."""

from collections.abc import Iterator

import httpx
import pytest

from tests.server import ServerProcess
from tests.service.problems import check_problem


@pytest.fixture
def client(shared_server: ServerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=shared_server.url) as client:
        yield client


@pytest.mark.parametrize(
    "path",
    ["/", "/healthz", "/readyz", "/docs", "/docs/assets/swagger-ui.css", "/openapi.json"],
)
def test_head_announces_what_get_would_bring(client: httpx.Client, path: str) -> None:
    head, get = client.head(path), client.get(path)
    assert head.status_code == get.status_code
    assert head.headers["content-length"] == get.headers["content-length"]
    assert head.content == b""


def test_a_path_that_is_longer_than_any(client: httpx.Client) -> None:
    target = b"/v1/streams/" + b"x" * 70_000 + b"?after=0"  # httpx takes no such URL
    answer = client.get("/", extensions={"target": target})
    check_problem(answer, 404, "not_found")
    assert len(answer.content) < 20_000
    assert client.get("/v1/streams").status_code == 200
