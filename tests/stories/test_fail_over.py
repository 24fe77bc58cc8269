"""One controller holds a PostgreSQL database, the others stand by; each story is one way to lose it."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count, cycle, pairwise
from pathlib import Path

import httpx
import pytest

from controller.database import migration
from tests.patience import wait_until
from tests.postgres import Cluster
from tests.server import LAUNCHER, ServerProcess
from tests.service.controllers import (
    NOW,
    Controllers,
    answers,
    controller,
    controllers,
    create,
    is_ready,
    note,
)
from tests.service.sessions import connected

LEASE_MS = 1_000
BOUND_S = 2 * LEASE_MS / 1_000 + 1
"""Of a take-over, but for the time to read."""
BUSY_S = 4.0
"""How late things may be because this machine is busy."""
STREAM = "tests/one"
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


@pytest.fixture
def two(cluster: Cluster, tmp_path: Path) -> Iterator[Controllers]:
    with controllers(cluster, tmp_path, 2, lease_ms=LEASE_MS) as running:
        create(running.servers[0].url, STREAM)
        yield running


def _watermark(server: ServerProcess) -> int:
    found: int = httpx.get(f"{server.url}/v1/streams/{STREAM}").json()["watermark"]
    return found


def test_a_standby_answers_probes_and_sends_all_other_callers_to_the_holder(
    two: Controllers,
) -> None:
    holder, (standby,) = two.holder, two.standbys
    assert answers(standby)
    unready = httpx.get(f"{standby.url}/readyz")
    reason = f"this controller stands by; {holder.url} holds the database"
    assert (unready.status_code, unready.json()["reasons"]) == (503, [reason])
    assert "tidegauge_holds_database 0.0" in standby.metrics()
    assert "tidegauge_holds_database 1.0" in holder.metrics()
    page = httpx.get(f"{standby.url}/").json()
    assert (page["streams"], page["links"]["holder"]) == ([], holder.url)
    for method, path in (("GET", "/v1/streams?limit=1"), ("DELETE", "/v1/streams/a/b%20c")):
        sent = httpx.request(method, f"{standby.url}{path}")
        assert (sent.status_code, sent.headers["location"]) == (307, f"{holder.url}{path}")
        assert sent.json()["code"] == "stands_by"
    assert note(standby.url, STREAM, 1).status_code == 307
    with httpx.Client(follow_redirects=True) as client:
        report = {"time": NOW + 5, "position": {"0": 5}}
        url = f"{standby.url}/v1/streams/{STREAM}/writers/w/note-time"
        assert client.post(url, json=report).json()["watermark"] == NOW + 5


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


def test_a_standby_takes_over_from_a_killed_holder_within_its_bound(two: Controllers) -> None:
    holder, (standby,) = two.holder, two.standbys
    assert note(holder.url, STREAM, 7).status_code == 200
    holder.kill()
    killed = time.monotonic()
    wait_until(lambda: is_ready(standby))
    assert time.monotonic() - killed < BOUND_S + BUSY_S
    assert _watermark(standby) == NOW + 7
    holder.launch()
    wait_until(lambda: answers(holder))
    assert note(holder.url, STREAM, 8).headers["location"].startswith(standby.url)


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
    assert _watermark(standby) == NOW + 2


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
    assert _watermark(standby) == NOW + 7


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
    assert _watermark(standby) == NOW + accepted[-1][0]
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
    for _ in range(3):
        for one in servers:
            one.launch()
        wait_until(lambda: all(map(answers, servers)) and any(map(is_ready, servers)))
        assert [is_ready(one) for one in servers].count(True) == 1
        for one in servers:
            one.stop()


def test_an_upgrade_takes_the_database_from_the_holder_of_the_former_version(
    two: Controllers,
) -> None:
    holder = two.holder
    with connected(two.database_url) as connection:
        migration._dethrone(connection)
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    said = "cannot take over yet: "
    wait_until(lambda: all(said in one.log.read_text() for one in two.servers))
    assert "has schema version 9999" in holder.log.read_text()
    assert [is_ready(one) for one in two.servers] == [False, False]
    with connected(two.database_url) as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = 'first'")
    assert two.holder
