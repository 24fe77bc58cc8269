"""Leases of transactions, what is remembered of finished ones, and how many and large they may be."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import text

from tests.conftest import NewServer
from tests.integration.log_api import Event, LogApi, numbered
from tests.integration.sessions import connected
from tests.integration.transaction_api import begin, begun, listed
from tests.patience import wait_until
from tests.server import ServerProcess
from tests.stepping import launcher, step

pytestmark = pytest.mark.about_sql

KEY = "k0"  # the middle one of three segments
DAY_S = 86_400


@contextmanager
def _stepping(directory: Path, database_url: str) -> Iterator[tuple[ServerProcess, LogApi]]:
    with (
        ServerProcess(
            directory, database_url=database_url, launcher=launcher(directory)
        ) as server,
        LogApi(server.url) as log,
    ):
        log.create(segments=1)
        log.register()
        yield server, log


def _let_pass(server: ServerProcess, directory: Path, log: LogApi, seconds: int) -> None:
    """Let listening time pass; a step counts as a second at most."""
    marker = begin(log, timeout_ms=3_600_000)

    def left_ms() -> int:
        left: int = marker.describe()["expires_in_ms"]
        return left

    end = left_ms() - 1_000 * seconds
    while (before := left_ms()) > end:
        step(server, directory, monotonic_s=1)
        wait_until(partial(_is_less, left_ms, before - 500))
    marker.post("abort")


def _is_less(look: Callable[[], int], most: int) -> bool:
    return look() <= most


def test_a_lease_is_renewed_by_every_call_and_ends_in_listening_time_alone(
    tmp_path: Path, database_url: str
) -> None:
    with _stepping(tmp_path, database_url) as (server, log):
        forgotten, pinged, staged = (begin(log, timeout_ms=4_000) for _ in range(3))
        forgotten.stage(numbered(0, 1), 1)
        server.kill()
        server.start()
        step(server, tmp_path, monotonic_s=3_600, wall_s=3_600)  # a suspended machine
        assert [one.state for one in (forgotten, pinged, staged)] == ["open"] * 3
        _let_pass(server, tmp_path, log, 2)
        assert pinged.post("ping")["expires_in_ms"] == 4_000
        assert staged.stage(numbered(5, 1), 1)["sequence"] == 1
        _let_pass(server, tmp_path, log, 2)
        wait_until(lambda: forgotten.state == "aborted")
        assert forgotten.commit()["code"] == "transaction_finished"
        assert [one.state for one in (pinged, staged)] == ["open", "open"]
        assert staged.commit()["position"] == {"0": 1}
        assert log.events() == numbered(5, 1)


def test_a_finished_transaction_is_remembered_for_a_day(
    tmp_path: Path, database_url: str
) -> None:
    with _stepping(tmp_path, database_url) as (server, log):
        done, open_one = begin(log), begin(log)
        first = done.commit()
        server.kill()
        server.start()
        step(server, tmp_path, wall_s=DAY_S - 60)
        assert done.commit() == first
        step(server, tmp_path, wall_s=61)
        for answer in (done.commit(), done.describe(), done.post("ping")):
            assert (answer["status"], answer["code"]) == (404, "unknown_transaction")
        assert open_one.state == "open"


def test_staged_events_of_what_is_finished_are_removed(
    new_server: NewServer, database_url: str
) -> None:
    server = new_server()
    with server, LogApi(server.url) as log:
        log.create()
        log.register()
        done, dropped, kept = begin(log), begin(log), begin(log)
        for one in (done, dropped, kept):
            for n in range(1, 20):
                one.stage(numbered(n, 1), n)
        done.commit()
        dropped.post("abort")

        def left() -> int:
            with connected(server.database_url) as connection:
                count: int = connection.execute(
                    text("SELECT count(*) FROM staged_chunks")
                ).scalar_one()
            return count

        wait_until(lambda: left() == 19)
        assert kept.commit()["position"] == {"0": 38}


@pytest.mark.only_on("sqlite", "settings are known before any database")
def test_a_stream_has_so_many_open_and_each_so_many_bytes(new_server: NewServer) -> None:
    limits = {"max_transactions_per_stream": 2, "max_transaction_bytes": 10_000}
    with new_server(**limits) as server, LogApi(server.url) as log:
        log.create()
        log.register()
        one, other = begin(log), begin(log)
        refused = begun(log)
        assert (refused["status"], refused["code"]) == (409, "too_many_transactions")
        assert refused["limit"] == 2
        other.commit()
        assert begun(log)["state"] == "open"
        assert len(listed(log, state="open")) == 2
        large: list[Event] = [("a", 0, b"x" * 6_000)]
        one.stage(large, 1)
        line = f'{{"key": "a", "value": "{"x" * 6_000}"}}'
        for answer in (one.stage(large, 2), one.stage_lines(line)):
            assert (answer["status"], answer["code"]) == (413, "transaction_too_large")
        assert one.commit()["position"] == {"0": 1}
