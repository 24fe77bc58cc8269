"""TLS by certificate files: the clients and the verbs over it, and files that cannot be used."""

import asyncio
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import httpx
import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from pydantic import ValidationError
from typer.testing import CliRunner

from controller.access import Authorities, Certificate, CertificateError
from controller.configuration import ServeSettings
from reader_client import Reader, ReaderGroup, ServiceUnreachableError, StreamClient
from tests.certificates import Files
from tests.conftest import NewServer
from tests.patience import wait_until
from tests.server import ServerProcess
from tests.tokens import Tokens
from tidegauge_cli.verbs import app
from writer_client import TimeReporter, Writer

pytestmark = pytest.mark.only_on("sqlite", "connections come before any database")

NOW = 1_700_000_000_000
END = datetime(2101, 1, 1, tzinfo=UTC)


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


def test_a_large_answer_and_a_large_body_pass(secure: ServerProcess) -> None:
    with httpx.Client(base_url=secure.url) as client:
        client.put("/v1/streams/a/b", json={"segments": 1}).raise_for_status()
        line = '{"key": "k", "value": "' + "v" * 1_000_000 + '"}\n'
        ndjson = {"content-type": "application/x-ndjson"}
        for _ in range(3):
            appended = client.post("/v1/streams/a/b/events", content=line, headers=ndjson)
            appended.raise_for_status()
    with StreamClient(secure.url, "a/b") as reader:
        values = [one.batch.column("value").to_pylist() for one in reader.read(0, 0, 3)]
    assert [len(value) for page in values for value in page] == [1_000_000] * 3


def test_who_does_not_trust_the_authority_or_speaks_no_tls_gets_no_answer(
    secure: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    soon = timedelta(milliseconds=1)
    with (
        StreamClient(secure.url, "a/b", retry_for=soon) as stranger,
        pytest.raises(ServiceUnreachableError, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        stranger.tail()
    plain = secure.url.replace("https", "http")
    with (
        StreamClient(plain, "a/b", retry_for=soon) as careless,
        pytest.raises(ServiceUnreachableError),
    ):
        careless.tail()


def test_clients_trust_whom_the_environment_names_when_they_connect(
    secure: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    soon = timedelta(milliseconds=1)
    httpx.put(f"{secure.url}/v1/streams/a/t", json={"segments": 1}).raise_for_status()
    with StreamClient(secure.url, "a/t") as one, StreamClient(secure.url, "a/t") as two:
        assert one.tail().tail == two.tail().tail == {0: 0}
    monkeypatch.setenv("SSL_CERT_FILE", str(Files(tmp_path).authority))
    with (
        StreamClient(secure.url, "a/t", retry_for=soon) as stranger,
        pytest.raises(ServiceUnreachableError, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        stranger.tail()


def test_who_never_closes_a_connection_does_not_keep_the_service_from_its_end(
    files: Files, new_server: NewServer
) -> None:
    with (
        new_server(tls_certificate=files.certificate, tls_key=files.key) as server,
        httpx.Client() as idle,
    ):
        assert idle.get(f"{server.url}/healthz").is_success
        assert server.stop() == 0
        assert "graceful shutdown exceeded" not in server.log.read_text()


def test_an_old_version_of_tls_is_refused(secure: ServerProcess, files: Files) -> None:
    context = ssl.create_default_context(cafile=files.authority)
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert httpx.get(f"{secure.url}/healthz", verify=context).is_success
    with pytest.warns(DeprecationWarning, match="TLSv1_1 is deprecated"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{secure.url}/healthz", verify=context)


def test_the_key_may_be_in_the_file_of_the_certificate(
    files: Files, new_server: NewServer
) -> None:
    with new_server(tls_certificate=files.both) as server:
        assert httpx.get(f"{server.url}/healthz").json() == {"status": "ok"}


def test_a_renewed_certificate_is_shown_from_the_next_connection_on(
    new_server: NewServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, renewed = tmp_path / "shown", tmp_path / "renewed"
    for directory in (shown, renewed):
        directory.mkdir()
    monkeypatch.setenv("SSL_CERT_FILE", str(Files(shown).authority))
    fresh = Files(renewed)
    certificate, key = shown / "certificate.pem", shown / "key.pem"
    with new_server(tls_certificate=certificate, tls_key=key) as server:
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


@pytest.mark.parametrize("is_in_one_file", [True, False])
def test_a_certificate_is_warned_of_at_its_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, is_in_one_file: bool
) -> None:
    ending = Files(tmp_path, end=END)
    shown = (ending.both, None) if is_in_one_file else (ending.certificate, ending.key)
    Certificate(*shown, clock=lambda: END.timestamp() - 1)
    assert caplog.records == []
    Certificate(*shown, clock=END.timestamp)
    assert [(one.levelname, one.getMessage()) for one in caplog.records] == [
        ("WARNING", f"certificate {shown[0]}: expired at 2101-01-01 00:00:00+00:00")
    ]


def test_a_renewed_certificate_that_expired_is_warned_of(
    tmp_path: Path, files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "shown.pem"
    file.write_bytes(files.both.read_bytes())
    certificate = Certificate(file, None)
    yesterday = datetime.now(UTC) - timedelta(days=1)
    file.write_bytes(Files(tmp_path, end=yesterday).both.read_bytes())
    certificate.look()
    assert caplog.records == []
    certificate.look()
    assert "expired at" in caplog.text


def test_a_certificate_that_is_none_of_a_server_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "client.pem"
    file.write_bytes(_of_client())
    Certificate(file, None)
    assert "a client may refuse it" in caplog.text
    assert "unsuitable certificate purpose" in caplog.text


def _of_client() -> bytes:
    """Make a key and a certificate that only clients may show."""
    key, now = generate_private_key(SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "client")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=True)
        .sign(key, SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return private + certificate.public_bytes(Encoding.PEM)


def _shown_by(server: ServerProcess) -> str:
    return ssl.get_server_certificate(("127.0.0.1", server.port))


def _wait_for_line(server: ServerProcess, text: str) -> None:
    wait_until(lambda: text in server.log.read_text())


def test_authorities_count_while_they_are_in_their_file(
    secure: ServerProcess, files: Files, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ours, another = files.authority.read_text(), Files(tmp_path).authority.read_text()
    file = tmp_path / "peers.pem"
    file.write_text(ours)
    authorities = Authorities(file)

    def look_at(text: str) -> None:
        file.write_text(text)
        authorities.look()
        authorities.look()  # it stands still

    async def use() -> None:
        keeping = httpx.Limits(max_keepalive_connections=0)
        async with httpx.AsyncClient(verify=authorities.context, limits=keeping) as client:
            ask = partial(client.get, f"{secure.url}/healthz")
            assert (await ask()).is_success
            look_at("nothing")
            assert "the authorities read before stay in force" in caplog.text
            assert (await ask()).is_success
            look_at(another)
            with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
                await ask()
            look_at(ours + another)
            assert (await ask()).is_success

    asyncio.run(use())


def test_with_tokens_and_tls_nothing_is_said_about_tokens_in_the_clear(
    files: Files, new_server: NewServer, tmp_path: Path
) -> None:
    tokens = Tokens(tmp_path).file
    with new_server(host="0.0.0.0", tokens=tokens, tls_certificate=files.both) as server:
        assert httpx.get(f"{server.url}/v1/streams").status_code == 401
        assert "WARNING" not in server.log.read_text()


@pytest.mark.parametrize(
    ("certificate", "key", "problem"),
    [
        ("none.pem", "key.pem", "No such file or directory"),
        ("certificate.pem", "none.pem", "No such file or directory"),
        ("certificate.pem", "other.pem", "KEY_VALUES_MISMATCH"),
        ("certificate.pem", None, "PEM files are expected"),
        ("certificate.pem", "locked.pem", "the key has a password; give one without"),
        ("text.pem", None, "PEM files are expected"),
    ],
)
def test_files_that_cannot_be_used_are_told_why(
    files: Files, certificate: str, key: str | None, problem: str
) -> None:
    other = trustme.CA().issue_cert("127.0.0.1").private_key_pem
    other.write_to_path(str(files.directory / "other.pem"))
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


def test_a_key_without_a_certificate_is_refused(files: Files) -> None:
    with pytest.raises(ValidationError, match="tls_key without tls_certificate; give both"):
        ServeSettings(tls_key=files.key)


@pytest.mark.only_on("sqlite", "a database of PostgreSQL is there before")
def test_without_a_usable_certificate_nothing_is_served(
    files: Files, new_server: NewServer
) -> None:
    server = new_server(tls_certificate=files.certificate)
    assert "PEM files are expected" in server.refusal()
    assert not server.database.exists()
