"""The proxy of docker-compose.yml, with TLS as docs/how-to/deploy.md tells it."""

import os
import signal
import socket
import socketserver
import ssl
import struct
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import Thread

import httpx
import pytest
import trustme

from reader_client import StreamClient
from tests.acceptance.compose import EXAMPLES, read_services
from tests.acceptance.local_cluster import LocalCluster
from tests.linked import ROOT
from tests.patience import wait_until
from tests.server import ServerProcess, free_port

SERVING = ("postgres", "migrate", "controller-1", "controller-2", "proxy")
SEGMENTS = 2_000
"""With the largest offsets, a position of 56 kB in an address."""


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the examples."""
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1", "controller-1", "controller-2")
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    for name in ("proxy.pem", "controllers.pem"):
        issued.private_key_and_cert_chain_pem.write_to_path(str(folder / name))
    return folder


@pytest.fixture(scope="module")
def cluster_with_tls(
    tls: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalCluster]:
    """Both examples at once: whoever starts it waits until every service is well."""
    overrides = [one.replace("./tls", str(tls)) for one in EXAMPLES if "./tls" in one]
    services = read_services({}, *overrides)
    serving = {name: services[name] for name in SERVING}
    with LocalCluster(serving, tmp_path_factory.mktemp("cluster")) as running:
        running.wait_until(lambda: running.is_well("proxy"), "the proxy", patience_s=60)
        running.wait_until(lambda: _knows_the_holder(running), "its checks", patience_s=60)
        yield running


def _knows_the_holder(cluster: LocalCluster) -> bool:
    """Ask until no call goes to the one that stands by: two checks have to fail before."""
    url = f"{cluster.url('proxy')}/v1/streams"
    return all(httpx.get(url).status_code == 200 for _ in range(8))


def test_tls_ends_at_the_proxy_and_begins_anew_at_the_controllers(
    cluster_with_tls: LocalCluster, tls: Path
) -> None:
    trusted = ssl.create_default_context(cafile=tls / "ca.pem")
    for service, port, probe in (
        ("proxy", "8443", "readyz"),
        ("controller-1", "8470", "healthz"),
        ("controller-2", "8470", "healthz"),
    ):
        url = f"{cluster_with_tls.url(service, port, scheme='https')}/{probe}"
        wait_until(partial(_is_well, url, trusted))
    streams = f"{cluster_with_tls.url('proxy')}/v1/streams/tls"
    for number in range(8):
        created = httpx.put(f"{streams}/{number}", json={"segments": 1}, timeout=20)
        assert created.status_code == 201


def _is_well(url: str, trusted: ssl.SSLContext) -> bool:
    return httpx.get(url, verify=trusted).status_code == 200


def test_a_position_of_many_segments_passes_the_proxy(cluster_with_tls: LocalCluster) -> None:
    url = cluster_with_tls.url("proxy")
    wide = {"segments": SEGMENTS}
    httpx.put(f"{url}/v1/streams/wide/one", json=wide, timeout=60).raise_for_status()
    with StreamClient(url, "wide/one") as stream:
        tail = stream.tail(after=dict.fromkeys(range(SEGMENTS), 2**63 - 1))
    assert tail.revision == 0


def test_the_proxy_ends_though_somebody_waits_for_news(cluster_with_tls: LocalCluster) -> None:
    url, port = cluster_with_tls.url("proxy"), cluster_with_tls.port("proxy", "8470")
    httpx.put(f"{url}/v1/streams/tls/quiet", json={"segments": 1}, timeout=20)
    asked = "GET /v1/streams/tls/quiet/marks?wait_ms=30000 HTTP/1.1\r\nhost: proxy\r\n\r\n"
    proxy = cluster_with_tls.processes["proxy"]
    with socket.create_connection(("127.0.0.1", port)) as waiting:
        waiting.sendall(asked.encode())
        cluster_with_tls.wait_until(
            lambda: cluster_with_tls.seats_taken(*SERVING[2:4], scheme="https") == 1,
            "a seat to be taken",
            patience_s=20,
        )
        proxy.send_signal(signal.SIGUSR1)  # what stops the image
        proxy.wait(timeout=60)
        assert waiting.recv(1_000).startswith(b"HTTP/1.1 50")


@pytest.mark.parametrize("third", [{}, {"CONTROLLER_3": ""}, {"CONTROLLER_3": "c:1"}])
def test_the_proxy_starts_with_two_controllers_and_with_three(third: dict[str, str]) -> None:
    given = {"TIDEGAUGE_HOST": "127.0.0.1", "TIDEGAUGE_PORT": "8470", "CONTROLLER_1": "a:1"}
    given |= {"PATH": os.environ["PATH"] + ":/usr/sbin", "CONTROLLER_2": "b:1"} | third
    command = ["haproxy", "-c", "-f", str(ROOT / "deploy" / "haproxy.cfg")]
    checked = subprocess.run(command, env=given, check=False, capture_output=True, text=True)
    assert (checked.returncode, checked.stderr.count("ALERT")) == (0, 0), checked.stderr


@pytest.mark.soak
def test_controllers_that_the_name_service_forgets_for_a_while_keep_their_addresses(
    server: ServerProcess, tmp_path: Path
) -> None:
    """HAProxy on its own would drop them 30 s after the last address that it was told."""
    names, port = _Names(), free_port()
    configuration = (ROOT / "deploy" / "haproxy.cfg").read_text()
    asked = f"nameserver fake 127.0.0.1:{names.server_address[1]}"
    (tmp_path / "haproxy.cfg").write_text(configuration.replace("parse-resolv-conf", asked))
    environment = {"TIDEGAUGE_HOST": "127.0.0.1", "TIDEGAUGE_PORT": str(port)}
    environment |= {f"CONTROLLER_{n}": f"controller-{n}:{server.port}" for n in (1, 2, 3)}
    command = ["haproxy", "-db", "-f", "haproxy.cfg"]
    with (
        names,
        subprocess.Popen(command, cwd=tmp_path, env=os.environ | environment) as proxy,
    ):
        try:
            wait_until(lambda: _is_ready(port))
            names.unknown = True
            # Each name is asked about once a second.
            wait_until(lambda: names.refusals >= 3 * 45)
            assert _is_ready(port)
        finally:
            proxy.kill()


class _Names(socketserver.ThreadingUDPServer):
    """A name service where every name is loopback, or unknown."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.unknown = False
        self.refusals = 0
        Thread(target=self.serve_forever, daemon=True).start()


class _Answer(socketserver.BaseRequestHandler):
    server: _Names

    def handle(self) -> None:
        asked, connection = self.request
        end = asked.index(b"\0", 12) + 5  # of the name, its type and its class
        question, is_address = asked[12:end], asked[end - 4 : end - 2] == b"\0\1"
        known = is_address and not self.server.unknown
        self.server.refusals += is_address and self.server.unknown
        flags = 0x8180 | (3 if self.server.unknown else 0)
        head = asked[:2] + struct.pack("!5H", flags, 1, known, 0, 0)
        answer = b"\xc0\x0c" + struct.pack("!2HIH", 1, 1, 1, 4) + bytes([127, 0, 0, 1])
        connection.sendto(head + question + answer * known, self.client_address)


def _is_ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz").is_success
    except httpx.HTTPError:
        return False
