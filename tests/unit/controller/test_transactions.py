"""Transactions: nothing is seen before the commit, and then all of it at once."""

import asyncio
from collections.abc import Iterator
from unittest.mock import patch

import pytest
from sqlalchemy import func, select

from controller.background import purging
from controller.log.staging import StagedEvents
from controller.schema import staged_chunks
from controller.streams.transactions import TransactionCalls
from tests.patience import wait_until
from tests.service.log_api import Event, LogApi, arrow_of, numbered
from tests.service.log_service import REFUSAL, LogService, batch_of, run_with
from tests.service.problems import check_problem
from tests.service.sessions import connected
from tests.service.transaction_api import OpenTransaction, begin, begun, listed
from tests.simulation.quiet import QuietWorld
from tests.unit.conftest import Serve
from tidegauge.errors import UnavailableError
from tidegauge.wire.events import ARROW
from tidegauge.wire.transactions import BeginTransaction

pytestmark = pytest.mark.about_sql

TIME = 1_700_000_000_000
DAY_S = 86_400
KEYS = ("k2", "k0", "k4")
"""One for each of three segments."""


@pytest.fixture
def log(log: LogApi) -> LogApi:
    log.create(segments=3)
    log.register()
    return log


def _refused(answer: dict[str, object], code: str) -> dict[str, object]:
    assert answer.get("code") == code, answer
    return answer


def test_nothing_is_seen_before_the_commit_and_all_of_it_afterwards(log: LogApi) -> None:
    transaction = begin(log)
    assert transaction.stage(numbered(0, 2, key=KEYS[0]), 1)["state"] == "open"
    transaction.stage(numbered(2, 2, key=KEYS[2]), 1, segment=2)
    assert log.tail() == {"0": 0, "1": 0, "2": 0}
    assert [log.events(number) for number in range(3)] == [[], [], []]
    committed = transaction.commit()
    assert (committed["state"], committed["watermark"]) == ("committed", None)
    assert committed["position"] == {"0": 2, "2": 2}
    assert log.tail() == {"0": 2, "1": 0, "2": 2}
    assert log.events(0) == numbered(0, 2, key=KEYS[0])
    assert log.events(2) == numbered(2, 2, key=KEYS[2])


def test_sequences_count_from_one_in_each_transaction_and_segment(log: LogApi) -> None:
    log.append(numbered(0, 1, key=KEYS[0]), 1)
    transaction = begin(log)
    first = transaction.stage(numbered(1, 1, key=KEYS[0]), 1)
    assert (first["sequence"], first["duplicate"]) == (1, False)
    again = transaction.stage(numbered(1, 1, key=KEYS[0]), 1)
    assert (again["sequence"], again["duplicate"]) == (1, True)
    gap = transaction.stage(numbered(3, 1, key=KEYS[0]), 3)
    assert _refused(gap, "sequence_gap")["expected_sequence"] == 2
    assert transaction.stage(numbered(2, 1, key=KEYS[0]), 2)["sequence"] == 2
    assert transaction.stage(numbered(0, 1, key=KEYS[1]), 1, segment=1)["sequence"] == 1
    assert transaction.commit()["position"] == {"0": 3, "1": 1}
    assert log.events(0) == numbered(0, 3, key=KEYS[0])
    assert log.append(numbered(3, 1, key=KEYS[0]), 2)["next_offset"] == 4


def test_lines_are_staged_once_if_they_are_numbered(log: LogApi) -> None:
    transaction = begin(log)
    line = '{"key": "k2", "event_time": 1, "value": "a"}\n'
    assert transaction.stage_lines(line, 1)["duplicate"] is False
    assert transaction.stage_lines(line, 1)["duplicate"] is True
    assert transaction.stage_lines(line.replace('"a"', '"b"'))["sequence"] == 2
    transaction.commit()
    assert log.events(0) == [("k2", 1, b"a"), ("k2", 1, b"b")]


def test_a_commit_with_a_time_promises_from_its_events_and_all_that_the_writer_appended(
    log: LogApi,
) -> None:
    log.register("other")
    log.append(numbered(0, 3, key=KEYS[0]), 1)  # reported by nobody
    log.append(numbered(0, 4, key=KEYS[0]), 1, writer="other")
    log.append(numbered(0, 5, key=KEYS[2]), 1, segment=2, writer="other")
    transaction = begin(log)
    transaction.stage(numbered(0, 2, key=KEYS[1]), 1, segment=1)
    assert transaction.commit(TIME)["watermark"] is None
    assert _position_of(log, "w") == {"0": 3, "1": 2}
    assert log.note_time(TIME, "other", position={"0": 7}, incarnation=1)["watermark"] == TIME
    quiet = begin(log)
    quiet.stage(numbered(2, 1, key=KEYS[1]), 1, segment=1)
    quiet.commit()
    assert _position_of(log, "w") == {"0": 3, "1": 2}  # without a time it is no report


def _position_of(log: LogApi, writer: str) -> dict[str, int]:
    position: dict[str, int]
    (position,) = (one["position"] for one in log.writers() if one["writer"] == writer)
    return position


def test_a_refused_report_commits_nothing_and_leaves_it_open(log: LogApi) -> None:
    log.note_time(TIME, incarnation=1)
    transaction = begin(log)
    transaction.stage(numbered(0, 1, key=KEYS[0]), 1)
    _refused(transaction.commit(TIME - 1), "invalid_time")
    _refused(transaction.commit(2**62), "time_in_future")
    assert (transaction.state, log.tail()["0"]) == ("open", 0)
    assert transaction.commit(TIME)["position"] == {"0": 1}


def test_begin_needs_the_newest_incarnation_of_its_writer(log: LogApi) -> None:
    answer = begun(log)
    assert (answer["state"], answer["expires_in_ms"]) == ("open", 60_000)
    _refused(begun(log, incarnation=None), "incarnation_required")
    log.register()
    _refused(begun(log), "writer_fenced")


def test_a_zombie_cannot_go_on(log: LogApi) -> None:
    transaction = begin(log)
    log.note_time(
        TIME, incarnation=2, position={}
    )  # a newer process spoke, and never registered
    _refused(transaction.stage(numbered(0, 1), 1), "writer_fenced")
    _refused(transaction.commit(), "writer_fenced")
    log.register()
    _refused(transaction.commit(), "transaction_finished")


@pytest.mark.parametrize("end", ["register", "leave", "seal"])
def test_what_ends_a_writer_or_the_stream_aborts_what_is_open(log: LogApi, end: str) -> None:
    log.register("other")
    mine, others = begin(log), begin(log, "other")
    mine.stage(numbered(0, 1, key=KEYS[0]), 1)
    done = begin(log)
    done.commit()
    path, body = {
        "register": ("writers/w/register", {}),
        "leave": ("writers/w/leave", {"incarnation": 1}),
        "seal": ("seal", {}),
    }[end]
    assert log.client.post(f"{log.path}/{path}", json=body).status_code == 200
    assert (mine.state, done.state) == ("aborted", "committed")
    assert others.state == ("aborted" if end == "seal" else "open")
    assert log.tail()["0"] == 0
    if end == "seal":
        _refused(begun(log), "stream_sealed")


def test_what_cannot_be_staged_is_refused(log: LogApi) -> None:
    _refused(begin(log).stage([], 1, segment=7), "unknown_segment")
    path = f"{begin(log).path}/segments/0/events"
    numbers, types = {"tidegauge-sequence": "1"}, {"content-type": ARROW}
    for headers, body, status, code in (
        ({}, b"x", 422, "invalid_request"),
        (numbers, b"x", 415, "unsupported_media_type"),
        (numbers | types, arrow_of([])[:20], 422, "invalid_request"),
    ):
        check_problem(log.client.post(path, content=body, headers=headers), status, code)


def test_transactions_are_listed_by_state_and_paged(log: LogApi) -> None:
    ids = sorted(begin(log).id for _ in range(3))
    assert [one["id"] for one in listed(log)] == ids
    OpenTransaction(log, ids[1]).commit()
    assert [one["id"] for one in listed(log, state="open")] == [ids[0], ids[2]]
    (committed,) = listed(log, state="committed")
    assert committed["id"] == ids[1]
    assert committed["position"] == {}
    assert committed["expires_in_ms"] is None
    first = log.json(log.client.get(f"{log.path}/transactions", params={"limit": "2"}))
    assert [one["id"] for one in first["transactions"]] == ids[:2]
    assert [one["id"] for one in listed(log, cursor=first["cursor"])] == ids[2:]


def test_a_repeated_commit_is_answered_once_the_first_is_on_disk(database_url: str) -> None:
    async def repeat(log: LogService) -> str:
        await log.create(segments=1)
        await log.register("w")
        parts = log.parts
        calls = TransactionCalls(parts.sequencer, parts.database, log.state)
        one = (await calls.begin(BeginTransaction(writer="w", incarnation=1))).id
        events = StagedEvents.of(batch_of(numbered(0, 2)))
        await calls.stage(one, events, segment=0, sequence=1)
        writing, failing = asyncio.Event(), asyncio.Event()

        async def write(*_: object, **__: object) -> None:
            writing.set()
            await failing.wait()
            raise UnavailableError(REFUSAL)

        with patch.object(parts.database, "write", write):
            first = asyncio.create_task(calls.commit(one, None))
            await writing.wait()
            second = asyncio.create_task(calls.commit(one, None))
            await asyncio.sleep(0)  # now it has looked at memory, if it looks too soon
            failing.set()
            with pytest.raises(UnavailableError):
                await first
        assert (await second).position == {0: 2}
        assert await log.read(0) == (0, numbered(0, 2))
        return one

    async def repeat_after_a_restart(log: LogService) -> None:
        calls = TransactionCalls(log.parts.sequencer, log.parts.database, log.state)
        assert (await calls.commit(one, None)).position == {0: 2}
        assert await log.read(0) == (0, numbered(0, 2))

    one = run_with(database_url, repeat)
    run_with(database_url, repeat_after_a_restart)


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
    clocks = world.controllers[0].node.clocks
    clocks.skew_s += DAY_S - 60
    assert done.commit() == first
    clocks.skew_s += 61
    for answer in (done.commit(), done.describe(), done.post("ping")):
        assert (answer["status"], answer["code"]) == (404, "unknown_transaction")
    assert open_one.state == "open"


def test_staged_events_of_what_is_finished_are_removed(
    serve: Serve, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purging, "_PERIOD_S", 0.01)
    with serve() as log:
        log.create()
        log.register()
        done, dropped, kept = begin(log), begin(log), begin(log)
        for transaction in (done, dropped, kept):
            for number in range(1, 5):
                transaction.stage(numbered(number, 1), number)
        done.commit()
        dropped.post("abort")

        def left() -> int:
            with connected(database_url) as connection:
                return connection.scalar(select(func.count()).select_from(staged_chunks)) or 0

        wait_until(lambda: left() == 4)
        assert kept.commit()["position"] == {"0": 8}


@pytest.mark.only_on("sqlite", "settings are known before any database")
def test_a_stream_has_so_many_open_and_each_so_many_bytes(serve: Serve) -> None:
    with serve(max_transactions_per_stream=2, max_transaction_bytes=10_000) as log:
        log.create()
        log.register()
        one, other = begin(log), begin(log)
        assert _refused(begun(log), "too_many_transactions")["limit"] == 2
        other.commit()
        assert begun(log)["state"] == "open"
        assert len(listed(log, state="open")) == 2
        large: list[Event] = [("a", 0, b"x" * 6_000)]
        one.stage(large, 1)
        line = f'{{"key": "a", "value": "{"x" * 6_000}"}}'
        for answer in (one.stage(large, 2), one.stage_lines(line)):
            assert _refused(answer, "transaction_too_large")["status"] == 413
        assert one.commit()["position"] == {"0": 1}
