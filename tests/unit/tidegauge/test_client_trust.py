"""Clients share what they trust, and say what they do not."""

import asyncio
import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.certificates import Files
from tests.patience import until
from tidegauge.client.outage import AuthoritiesError, ServiceUnreachableError
from tidegauge.client.transport import Transport, trust_for
from tidegauge_cli.verbs import app


def test_authorities_are_read_once_for_each_file_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []
    for number in range(2):
        directory = tmp_path / str(number)
        directory.mkdir()
        monkeypatch.setenv("SSL_CERT_FILE", str(Files(directory).authority))
        read.append(trust_for("https://one"))
        assert trust_for("HTTPS://other:8470") is read[-1]
        assert len(read[-1].get_ca_certs()) == 1
    assert read[0] is not read[1]


def test_no_authority_is_read_where_there_is_no_tls() -> None:
    assert trust_for("http://one") is trust_for("http://https:8470")
    assert trust_for("http://one").get_ca_certs() == []


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("host", "trusts", "end", "said"),
    [
        ("127.0.0.1", False, None, "unable to get local issuer certificate; SSL_CERT_FILE"),
        ("localhost", True, None, "not valid for 'localhost'; write the URL with a name that"),
        ("127.0.0.1", True, datetime(2020, 1, 1, tzinfo=UTC), "has expired; SSL_CERT_FILE"),
        ("127.0.0.1", True, "plain", "; write http:// if it has none"),
    ],
)
async def test_tls_that_cannot_be_had_is_told_at_once_with_the_cure(
    host: str,
    end: datetime | str | None,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    trusts: bool,
) -> None:
    files = Files(tmp_path, end=end if isinstance(end, datetime) else None)
    if trusts:
        monkeypatch.setenv("SSL_CERT_FILE", str(files.authority))
    async with await _serve(None if end == "plain" else files) as server:
        with pytest.raises(ServiceUnreachableError, match=said):
            await _ask(f"https://{host}:{_port(server)}")  # would take a minute
    async with await _serve(None) as plain:  # and another URL of the list goes on
        await _ask(f"https://127.0.0.1:{_port(plain)},http://127.0.0.1:{_port(plain)}")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file or directory"),
        ("", "no certificate or crl found"),
        ("-----", "no cert"),
    ],
)
def test_a_file_of_authorities_that_cannot_be_used_is_named_at_once(
    content: str | None, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "authorities.pem"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with pytest.raises(AuthoritiesError, match=rf"SSL_CERT_FILE names {file}, .*{reason}"):
        asyncio.run(_ask("https://127.0.0.1:1"))
    shown = CliRunner().invoke(app, ["streams", "--url", "https://127.0.0.1:1"])
    assert "name a file of certificates in PEM form, or unset it" in str(shown.exception)


@pytest.mark.anyio
async def test_a_port_that_speaks_tls_is_told_from_one_that_says_nothing(
    tmp_path: Path,
) -> None:
    logged: list[str] = []
    async with await _serve(Files(tmp_path)) as server:
        asking = asyncio.create_task(_ask(f"http://127.0.0.1:{_port(server)}", logged))
        await until(lambda: bool(logged))
        asking.cancel()
    (line,) = logged
    assert line.endswith("without sending a response; write https:// if it speaks TLS")


@pytest.mark.anyio
async def test_a_stream_that_ends_within_a_handshake_is_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Files(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(files.authority))

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.close()

    logged: list[str] = []
    ends = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    port = _port(ends)
    asking = asyncio.create_task(_ask(f"https://127.0.0.1:{port}", logged))
    await until(lambda: bool(logged))
    ends.close()
    async with await _serve(files, port):
        await asking
    begun, ended = logged
    assert begun.endswith("60 s: the connection ended within the TLS handshake")
    assert "answers again" in ended


async def _serve(files: Files | None, port: int = 0) -> asyncio.Server:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10_000)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        writer.close()

    context = None
    if files is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files.both)
    return await asyncio.start_server(answer, "127.0.0.1", port, ssl=context)


def _port(server: asyncio.Server) -> int:
    port: int = server.sockets[0].getsockname()[1]
    return port


async def _ask(url: str, logged: list[str] | None = None) -> None:
    lines: list[str] = [] if logged is None else logged
    transport = Transport(url, log=lines.append)
    try:
        await transport.send("GET", "/v1/streams", retry=True)
    finally:
        await transport.aclose()
