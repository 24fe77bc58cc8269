"""Controllers that speak TLS pass calls on to each other."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.certificates import Files
from tests.integration.controllers import NOW, controllers, create, note
from tests.patience import wait_until
from tests.postgres import Cluster


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    """A certificate that this process trusts; controllers do not look at its environment."""
    directory = tmp_path / "tls"
    directory.mkdir()
    files = Files(directory)
    monkeypatch.setenv("SSL_CERT_FILE", str(files.authority))
    return files


def test_an_authority_of_our_own_is_trusted_by_controllers_that_are_told_of_it(
    cluster: Cluster, tmp_path: Path, files: Files
) -> None:
    tls = {"tls_certificate": files.both, "peer_ca": files.authority}
    with controllers(cluster, tmp_path, 2, **tls) as told:
        create(told.servers[0].url, "tls/a", "tls/b")
        wait_until(lambda: told.held() == [1, 1, 0])
        for at, server in enumerate(told.servers, start=1):
            for stream in ("tls/a", "tls/b"):
                answer = note(server.url, stream, at)
                assert (answer.status_code, answer.json()["watermark"]) == (200, NOW + at)


def test_a_certificate_that_is_not_trusted_is_told_to_the_caller_and_in_the_log(
    cluster: Cluster, tmp_path: Path, files: Files
) -> None:
    tls = {"tls_certificate": files.both, "lease_ms": 500}
    with controllers(cluster, tmp_path, 2, **tls) as untold:
        one, other = untold.servers
        refused = next(one for one in _created(one.url) if not one.is_success)
        assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
        assert f"the controller at {other.url}, which holds it, is not" in refused.text
        stream = refused.url.path.removeprefix("/v1/streams/")
        create(other.url, stream)
        report = {"stream": stream, "writer": "w", "time": NOW}
        many = httpx.post(f"{one.url}/v1/note-times", json={"reports": [report]}, timeout=20)
        assert many.json()["results"][0]["code"] == "unavailable"
        lines = one.log.read_text().splitlines()
        (line,) = (line for line in lines if f"{other.url} is not reached" in line)
        assert "CERTIFICATE_VERIFY_FAILED" in line


def _created(url: str) -> Iterator[httpx.Response]:
    """Create one stream after another: half of them are the other controller's to create."""
    for number in range(20):
        yield httpx.put(f"{url}/v1/streams/tls/{number}", json={"segments": 1}, timeout=20)
