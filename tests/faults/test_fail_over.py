"""One controller holds a PostgreSQL database, the others stand by; each story is one way to lose it."""

import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count, cycle, pairwise

import httpx

from controller.database import migration
from tests.patience import wait_until
from tests.server import ServerProcess
from tests.service.controllers import (
    BUSY_S,
    LEASE_MS,
    NOW,
    STREAM,
    Controllers,
    is_ready,
    note,
    watermark,
)
from tests.service.sessions import connected


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
