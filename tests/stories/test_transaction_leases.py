"""Leases of transactions, what is remembered of finished ones, and how many and large they may be."""

from collections.abc import Iterator

import pytest
from sqlalchemy import text

from tests.conftest import NewServer
from tests.patience import wait_until
from tests.service.log_api import Event, LogApi, numbered
from tests.service.sessions import connected
from tests.service.transaction_api import begin, begun, listed
from tests.simulation.quiet import QuietWorld

KEY = "k0"  # the middle one of three segments
DAY_S = 86_400


@pytest.fixture
def slow_log(world: QuietWorld) -> Iterator[LogApi]:
    """A log under virtual time."""
    with LogApi(world.controllers[0].url, transport=world.transport()) as log:
        log.client.follow_redirects = True
        log.create(segments=1)
        log.register()
        yield log


def _restart(world: QuietWorld) -> None:
    for one in world.controllers:
        world.kill(one)
    for one in world.controllers:
        world.start(one)


def test_a_lease_is_renewed_by_every_call_and_ends_in_listening_time_alone(
    world: QuietWorld, slow_log: LogApi
) -> None:
    forgotten, pinged, staged = (begin(slow_log, timeout_ms=4_000) for _ in range(3))
    forgotten.stage(numbered(0, 1), 1)
    _restart(world)
    for one in world.controllers:
        one.node.pause_for(3_600, suspends=True)
    world.sleep(3_601)  # one of them takes over, or has renewed
    assert [one.state for one in (forgotten, pinged, staged)] == ["open"] * 3
    world.sleep(2)
    assert pinged.post("ping")["expires_in_ms"] == 4_000
    assert staged.stage(numbered(5, 1), 1)["sequence"] == 1
    world.sleep(3)
    assert forgotten.state == "aborted"
    assert forgotten.commit()["code"] == "transaction_finished"
    assert [one.state for one in (pinged, staged)] == ["open", "open"]
    assert staged.commit()["position"] == {"0": 1}
    assert slow_log.events() == numbered(5, 1)


def test_a_finished_transaction_is_remembered_for_a_day(
    world: QuietWorld, slow_log: LogApi
) -> None:
    done, open_one = begin(slow_log), begin(slow_log)
    first = done.commit()
    _restart(world)
    _set_clocks_on(world, DAY_S - 60)
    assert done.commit() == first
    _set_clocks_on(world, 61)
    for answer in (done.commit(), done.describe(), done.post("ping")):
        assert (answer["status"], answer["code"]) == (404, "unknown_transaction")
    assert open_one.state == "open"


def _set_clocks_on(world: QuietWorld, seconds: int) -> None:
    for one in world.controllers:
        one.node.clocks.skew_s += seconds


@pytest.mark.about_sql
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
