"""TLS by certificate files: the clients and the verbs over it, and files that cannot be used."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from typer.testing import CliRunner

from controller.access.encryption import Certificate, CertificateError
from reader_client import Reader, ReaderGroup
from tests.certificates import Files
from tests.conftest import NewServer
from tests.patience import wait_until
from tests.server import LAUNCHER, OFTEN_LOOKING, ServerProcess
from tidegauge_cli.verbs import app
from writer_client import TimeReporter, Writer

pytestmark = pytest.mark.only_on("sqlite", "connections come before any database")

NOW = 1_700_000_000_000
HASTY = f"from controller.serving import protocol; protocol._TLS_CLOSE_S = 0.1; {LAUNCHER}"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module", autouse=True)
def trusting(files: Files) -> Iterator[None]:
    """Let the clients of this process trust the authority."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SSL_CERT_FILE", str(files.authority))
        yield


@pytest.fixture(scope="module")
def secure(files: Files, trusting: None, new_server: NewServer) -> Iterator[ServerProcess]:
    with new_server(tls_certificate=files.certificate, tls_key=files.key) as server:
        yield server


def test_every_client_and_the_verbs_speak_tls(secure: ServerProcess) -> None:
    url = secure.url
    assert url.startswith("https://127.0.0.1:")
    assert f"serving  {url}" in secure.log.read_text()
    for stream, log in (("a/events", "embedded"), ("a/times", "external")):
        settings = {"segments": 1, "log": log, "mark_interval_ms": 0}
        httpx.put(f"{url}/v1/streams/{stream}", json=settings).raise_for_status()
    with Writer(url, "a/events", "w") as writer:
        writer.write("v", key="k", event_time=NOW)
        writer.note_time(NOW)
    with TimeReporter(url, "a/times", "w") as reporter:
        for at in range(5):
            reporter.note_time(NOW + at, {0: at})
        assert reporter.watermark == NOW + 4
    with ReaderGroup(url, "a/group") as group:
        group.create(["a/events"])
    with Reader(url, "a/group", "r") as reader:
        assert [event.value for event in reader.read_next()] == [b"v"]
    shown = CliRunner().invoke(app, ["why", "a/events", "--url", url])
    assert shown.exit_code == 0
    assert "2023-11-14T22:13:20.000Z" in shown.output


def test_who_never_closes_a_connection_does_not_keep_the_service_from_its_end(
    files: Files, new_server: NewServer
) -> None:
    with (
        new_server(
            tls_certificate=files.certificate, tls_key=files.key, launcher=HASTY
        ) as server,
        httpx.Client() as idle,
    ):
        assert idle.get(f"{server.url}/healthz").is_success
        assert server.stop() == 0
        assert "graceful shutdown exceeded" not in server.log.read_text()


def test_a_renewed_certificate_is_shown_from_the_next_connection_on(
    new_server: NewServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, renewed = tmp_path / "shown", tmp_path / "renewed"
    for directory in (shown, renewed):
        directory.mkdir()
    monkeypatch.setenv("SSL_CERT_FILE", str(Files(shown).authority))
    fresh = Files(renewed)
    certificate, key = shown / "certificate.pem", shown / "key.pem"
    with new_server(tls_certificate=certificate, tls_key=key, launcher=OFTEN_LOOKING) as server:
        before = _shown_by(server)
        with httpx.Client(base_url=server.url) as client:
            client.get("/healthz").raise_for_status()
            key.write_bytes(fresh.key.read_bytes())
            _wait_for_line(server, "the certificate read before stays in force")
            assert _shown_by(server) == before
            certificate.write_bytes(fresh.certificate.read_bytes())
            _wait_for_line(server, "certificate read again from")
            assert _shown_by(server) == fresh.certificate.read_text() != before
            client.get("/healthz").raise_for_status()
        trusting = ssl.create_default_context(cafile=fresh.authority)
        assert httpx.get(f"{server.url}/healthz", verify=trusting).is_success


def _shown_by(server: ServerProcess) -> str:
    return ssl.get_server_certificate(("127.0.0.1", server.port))


def _wait_for_line(server: ServerProcess, text: str) -> None:
    wait_until(lambda: text in server.log.read_text())


@pytest.mark.parametrize(
    ("certificate", "key", "problem"),
    [
        ("none.pem", "key.pem", "No such file or directory"),
        ("certificate.pem", "locked.pem", "the key has a password; give one without"),
        ("text.pem", None, "PEM files are expected"),
    ],
)
def test_files_that_cannot_be_used_are_told_why(
    files: Files, certificate: str, key: str | None, problem: str
) -> None:
    (files.directory / "text.pem").write_text("nothing")
    private = load_pem_private_key(files.key.read_bytes(), None)
    locked = private.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )
    (files.directory / "locked.pem").write_bytes(locked)
    key_file = None if key is None else files.directory / key
    with pytest.raises(CertificateError) as refused:
        Certificate(files.directory / certificate, key_file)
    assert problem in str(refused.value)
