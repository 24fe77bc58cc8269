"""One controller holds a PostgreSQL database, the others stand by; each story is one way to lose it."""

import os
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from functools import partial
from itertools import count, cycle, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

import httpx

from controller.database import migration
from tests.patience import wait_until
from tests.postgres import Cluster
from tests.server import LAUNCHER, ServerProcess
from tests.service.controllers import (
    BOUND_S,
    BUSY_S,
    LEASE_MS,
    NOW,
    STREAM,
    Controllers,
    answers,
    controller,
    controllers,
    create,
    is_ready,
    note,
    watermark,
)
from tests.service.sessions import connected

SOCKET = ".s.PGSQL.5432"
STOPS_INSIDE = f"""
import os, signal
from pathlib import Path
from controller.cluster import lease

check = lease._check

def check_and_stop(connection, holder):
    check(connection, holder)
    marker = Path(os.environ["TIDEGAUGE_TESTS_STOP"])
    if marker.exists():
        marker.unlink()
        connection.exec_driver_sql("SELECT 1")
        os.kill(os.getpid(), signal.SIGSTOP)

lease._check = check_and_stop
{LAUNCHER}
"""


def test_a_standby_of_a_holder_without_a_url_answers_503(
    cluster: Cluster, tmp_path: Path
) -> None:
    with ServerProcess(tmp_path, database_url=cluster.database()) as holder:
        standby = controller(tmp_path, holder.database_url)
        standby.launch()
        wait_until(lambda: answers(standby))
        answer = httpx.get(f"{standby.url}/v1/streams")
        standby.stop()
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
        assert answer.headers["retry-after"] == "1"


def test_a_controller_that_was_killed_sends_nobody_to_itself_when_it_starts_again(
    cluster: Cluster, tmp_path: Path
) -> None:
    with controller(tmp_path, cluster.database()) as holder:
        holder.kill()
        holder.launch()
        wait_until(lambda: answers(holder))
        assert httpx.get(f"{holder.url}/v1/streams").status_code == 503


def test_a_holder_that_was_paused_commits_nothing_and_shows_nothing_old(
    two: Controllers,
) -> None:
    holder, (standby,) = two.holder, two.standbys
    note(holder.url, STREAM, 1).raise_for_status()
    holder.process.send_signal(signal.SIGSTOP)
    seen: list[httpx.Response] = []
    asked = [
        threading.Thread(target=lambda: seen.append(note(holder.url, STREAM, 3))),
        threading.Thread(target=lambda: seen.append(httpx.get(_describe(holder), timeout=60))),
    ]
    for one in asked:  # they wait in the socket of the paused one
        one.start()
    wait_until(lambda: is_ready(standby))
    note(standby.url, STREAM, 2).raise_for_status()
    holder.process.send_signal(signal.SIGCONT)
    for one in asked:
        one.join()
    assert {one.status_code for one in seen} <= {307, 503}
    wait_until(lambda: httpx.get(_describe(holder)).status_code == 307)
    assert watermark(standby) == NOW + 2


def _describe(server: ServerProcess) -> str:
    return f"{server.url}/v1/streams/{STREAM}"


def test_a_holder_that_is_stopped_inside_a_transaction_is_succeeded_within_the_bound(
    cluster: Cluster, tmp_path: Path
) -> None:
    marker = tmp_path / "stop"
    os.environ["TIDEGAUGE_TESTS_STOP"] = str(marker)
    with controllers(cluster, tmp_path, 2, lease_ms=LEASE_MS, launcher=STOPS_INSIDE) as running:
        holder, (standby,) = running.holder, running.standbys
        create(holder.url, STREAM, log="embedded")
        marker.touch()
        cut = {"cut": {"0": 0}}
        url = f"{holder.url}/v1/streams/{STREAM}/truncate"
        asking = threading.Thread(target=lambda: _ask(url, cut))
        asking.start()
        wait_until(lambda: not marker.exists())
        stopped = time.monotonic()
        wait_until(lambda: is_ready(standby))
        assert time.monotonic() - stopped < BOUND_S + BUSY_S
        holder.process.send_signal(signal.SIGCONT)
        asking.join()
        wait_until(lambda: httpx.get(_describe(holder)).status_code == 307)


def test_a_pipeline_that_a_lost_holder_has_sent_in_part_keeps_nobody_waiting(
    two: Controllers,
) -> None:
    holder, (standby,) = two.holder, two.standbys
    ((tenure,),) = two.query("SELECT id FROM holder")
    with closing(two.connect()) as connection:
        connection.execute(f"SET application_name = 'tidegauge {tenure}'".encode())
        connection.pgconn.enter_pipeline_mode()
        for text in (b"BEGIN", b"SELECT 1 FROM holder FOR KEY SHARE"):
            connection.pgconn.send_query_params(text, None)
        connection.pgconn.send_flush_request()
        connection.pgconn.flush()
        wait_until(lambda: two.query("SELECT 1 FROM holder FOR UPDATE SKIP LOCKED") == [])
        holder.kill()
        wait_until(lambda: is_ready(standby))


def _ask(url: str, body: object) -> None:
    httpx.post(url, json=body, timeout=60)


def test_a_holder_that_leaves_is_succeeded_at_once(two: Controllers) -> None:
    holder, (standby,) = two.holder, two.standbys
    note(holder.url, STREAM, 7).raise_for_status()
    assert holder.stop() == 0
    ended = time.monotonic()
    wait_until(lambda: is_ready(standby))
    assert time.monotonic() - ended < BUSY_S
    assert watermark(standby) == NOW + 7


def test_a_hand_over_under_a_writer_and_a_long_poll_loses_nothing(two: Controllers) -> None:
    holder, (standby,) = two.holder, two.standbys
    poll = f"{_describe(holder)}/marks?after=1000000&wait_ms=30000"
    accepted: list[tuple[int, float]] = []
    handed_over = threading.Event()
    with ThreadPoolExecutor() as threads:
        writing = threads.submit(_write_on, two, accepted, handed_over)
        polling = threads.submit(httpx.get, poll, timeout=60)
        holder.wait_for_waiting(1)
        wait_until(lambda: len(accepted) > 10)
        holder.process.send_signal(signal.SIGTERM)
        wait_until(lambda: is_ready(standby))
        enough = len(accepted) + 10
        wait_until(lambda: len(accepted) > enough)
        handed_over.set()
        writing.result()
        answer = polling.result()
    assert (answer.status_code, answer.json()["marks"]) == (200, [])
    assert holder.process.wait(timeout=60) == 0
    assert watermark(standby) == NOW + accepted[-1][0]
    assert max(later - sooner for (_, sooner), (_, later) in pairwise(accepted)) < BUSY_S


def _write_on(
    two: Controllers, accepted: list[tuple[int, float]], ended: threading.Event
) -> None:
    """Report later and later times, each at one controller after the other until it is accepted."""
    for at in count(1):
        if ended.is_set():
            return
        for server in cycle(two.servers):
            try:
                status = note(server.url, STREAM, at).status_code
            except httpx.TransportError:
                status = 0
            assert status in {0, 200, 307, 502, 503}
            if status == httpx.codes.OK:
                accepted.append((at, time.monotonic()))
                break
            time.sleep(0.02)


def test_of_two_that_start_at_once_one_holds(cluster: Cluster, tmp_path: Path) -> None:
    url = cluster.database()
    servers = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        servers.append(controller(tmp_path / name, url, lease_ms=LEASE_MS))
    for _ in range(20):
        for one in servers:
            one.launch()
        wait_until(lambda: all(map(answers, servers)) and any(map(is_ready, servers)))
        assert [is_ready(one) for one in servers].count(True) == 1
        for one in servers:
            one.stop()


def test_a_restart_of_the_database_loses_nothing_and_leaves_one_holder(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    with controllers(own_cluster, tmp_path, 3, lease_ms=LEASE_MS) as running:
        create(running.servers[0].url, STREAM)
        for at in range(1, 4):
            # A lease of a second may run out for a moment on a busy machine.
            wait_until(partial(_is_accepted, running, at))
            own_cluster.restart()
            wait_until(
                lambda: [is_ready(server) for server in running.servers].count(True) == 1
            )
            wait_until(partial(_shows, running, NOW + at))


def test_a_connection_that_is_cut_between_commit_and_answer_loses_nothing_accepted(
    cluster: Cluster, tmp_path: Path
) -> None:
    url = cluster.database()
    with Wire(cluster.directory / SOCKET) as wire:
        through = url.replace(str(cluster.directory), str(wire.directory))
        with controllers(
            cluster, tmp_path, 2, lease_ms=LEASE_MS, database_url=through
        ) as running:
            create(running.holder.url, STREAM)
            for at in range(1, 11):
                wire.cuts_next_commit.set()
                wait_until(partial(_is_accepted, running, at))
                wait_until(lambda: not wire.cuts_next_commit.is_set())
            assert watermark(running.holder) == NOW + 10


def _is_accepted(two: Controllers, at: int) -> bool:
    status = note(two.holder.url, STREAM, at).status_code
    assert status in {200, 307, 502, 503}
    return status == httpx.codes.OK


def _shows(two: Controllers, time: int) -> bool:
    answer = httpx.get(f"{two.holder.url}/v1/streams/{STREAM}")
    assert not answer.is_success or answer.json()["watermark"] == time
    return answer.is_success


class Wire:
    """Connections to PostgreSQL, one of which is cut behind its next commit, before the answer."""

    def __init__(self, server: Path) -> None:
        self._stack = ExitStack()
        self.directory = Path(self._stack.enter_context(TemporaryDirectory(prefix="wire")))
        self.cuts_next_commit = threading.Event()
        self._server = str(server)

    def __enter__(self) -> Self:
        listener = self._stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(self.directory / SOCKET))
        listener.listen()
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client = self._stack.enter_context(listener.accept()[0])
                server = self._stack.enter_context(socket.socket(socket.AF_UNIX))
                server.connect(self._server)
                asking = partial(self._pass_on, client, server, are_answers=False)
                answering = partial(self._pass_on, server, client, are_answers=True)
                for pump in (asking, answering):
                    threading.Thread(target=pump, daemon=True).start()

    def _pass_on(
        self, source: socket.socket, target: socket.socket, *, are_answers: bool
    ) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                if are_answers and b"COMMIT\0" in data and self.cuts_next_commit.is_set():
                    self.cuts_next_commit.clear()
                    break
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def test_an_upgrade_takes_the_database_from_the_holder_of_the_former_version(
    two: Controllers,
) -> None:
    holder = two.holder
    with connected(two.database_url) as connection:
        migration._dethrone(connection)
        row = connection.exec_driver_sql("SELECT address, lease_ms, number FROM holder").one()
        assert row == ("", LEASE_MS, 0)
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    said = "cannot take over yet: "
    wait_until(lambda: all(said in one.log.read_text() for one in two.servers))
    assert "has schema 9999" in holder.log.read_text()
    assert [is_ready(one) for one in two.servers] == [False, False]
    with connected(two.database_url) as connection:
        newest = migration.newest_revision()
        connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{newest}'")
    assert two.holder
