"""Batches of a job: rows, note and seal, all or nothing, once by writer and number."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from controller.streams.appends import Source
from controller.streams.transactions import JobBatch, TransactionCalls
from tests.service.log_api import LogApi, numbered
from tests.service.log_service import batch_of, serving
from tests.service.transaction_api import append_batch, begin
from tests.tokens import Tokens
from tests.unit.conftest import Serve
from tidegauge.event_time import END_OF_TIME

pytestmark = pytest.mark.about_sql

TIME = 1_700_000_000_000
KEYS = ("k2", "k4")
"""One for each of two segments."""


@pytest.fixture
def log(log: LogApi) -> LogApi:
    log.create(segments=2)
    return log


def test_a_batch_is_stored_once_by_its_number(log: LogApi) -> None:
    rows = [*numbered(0, 2, key=KEYS[0]), *numbered(2, 1, key=KEYS[1])]
    first = append_batch(log, 0, rows, note_time=TIME)
    assert (first["duplicate"], first["last"], first["watermark"]) == (False, 0, TIME)
    assert first["position"] == {"0": 2, "1": 1}
    again = append_batch(log, 0, numbered(50, 9), note_time=TIME + 9)
    assert (again["duplicate"], again["last"], again["watermark"]) == (True, 0, TIME)
    assert append_batch(log, 7, rows)["last"] == 7  # gaps are fine
    earlier = append_batch(log, 5, rows)
    assert (earlier["duplicate"], earlier["last"]) == (True, 7)
    assert append_batch(log, 1, rows, writer="another")["duplicate"] is False
    assert log.tail() == {"0": 6, "1": 3}


@pytest.mark.anyio
async def test_a_batch_that_is_sent_twice_at_once_is_stored_once(database_url: str) -> None:
    async with serving(database_url) as log:
        await log.create(segments=1)
        calls = TransactionCalls(log.parts.sequencer, log.parts.database, log.state)
        job = JobBatch(1, Source("job", of_its_own=True), ended=False)
        events = batch_of(numbered(0, 2))
        twice = [calls.append_batch(job, events=events) for _ in range(2)]
        outcomes = sorted(await asyncio.gather(*twice), key=lambda one: one.position is None)
        assert [one[:2] for one in outcomes] == [(1, {0: 2}), (1, None)]
        assert (await log.read(0))[1] == numbered(0, 2)


def test_an_unknown_writer_becomes_known_as_if_it_had_registered(log: LogApi) -> None:
    log.note_time(TIME, "other", position={})
    assert append_batch(log, 1, numbered(0, 1, key=KEYS[0]))["duplicate"] is False
    known, _ = log.writers()
    assert (known["state"], known["incarnation"], known["stand"]) == ("joining", 0, TIME)
    assert log.note_time(TIME + 5, "other", position={})["watermark"] == TIME  # it waits for it
    assert append_batch(log, 2, [], note_time=TIME + 3)["watermark"] == TIME + 3


def test_transactions_of_the_job_are_published_in_their_order(log: LogApi) -> None:
    append_batch(log, 1, [])
    winners = [begin(log, "job", incarnation=None) for _ in range(2)]
    loser = begin(log, "job", incarnation=None)
    for n, one in enumerate([*winners, loser]):
        one.stage(numbered(n, 1, key=KEYS[0]), 1)
    ids = [winners[1].id, winners[0].id]
    done = append_batch(log, 2, transactions=ids, note_time=TIME)
    assert (done["position"], done["watermark"]) == ({"0": 2}, TIME)
    assert log.events(0) == [*numbered(1, 1, key=KEYS[0]), *numbered(0, 1, key=KEYS[0])]
    assert [one.state for one in (*winners, loser)] == ["committed", "committed", "open"]
    assert append_batch(log, 2, transactions=ids)["duplicate"] is True
    assert append_batch(log, 3, transactions=ids)["code"] == "transaction_finished"
    unknown = append_batch(log, 3, transactions=["no-such"])
    assert (unknown["status"], unknown["code"]) == (404, "unknown_transaction")
    twice = append_batch(log, 3, transactions=[loser.id, loser.id])
    assert twice["code"] == "invalid_request"
    log.register()
    others = begin(log)
    foreign = append_batch(log, 3, transactions=[others.id])
    assert foreign["code"] == "invalid_request"
    assert "'w'" in foreign["detail"]


def test_a_refused_note_appends_and_ends_nothing(log: LogApi) -> None:
    append_batch(log, 1, [], note_time=TIME)
    rows = numbered(0, 3, key=KEYS[0])
    assert append_batch(log, 2, rows, note_time=TIME - 1, seal=True)["code"] == "invalid_time"
    log.register("other")
    assert append_batch(log, 1, rows, writer="new", note_time=2**62)["code"] == "time_in_future"
    assert [one["writer"] for one in log.writers()] == ["job", "other"]
    assert log.tail() == {"0": 0, "1": 0}
    assert append_batch(log, 2, rows, note_time=TIME)["duplicate"] is False


def test_a_batch_seals_the_stream_once_all_that_its_writers_read_has_ended(
    log: LogApi,
) -> None:
    log.register("other")
    append_batch(log, 1, [], note_time=TIME - 1)
    ended = append_batch(log, 2, [], seal=True)
    assert (ended["final"], ended["not_ended"]) == (False, ["other"])
    states = {one["writer"]: (one["state"], one["ended"]) for one in log.writers()}
    assert states == {"job": ("left", True), "other": ("joining", False)}
    leave = f"{log.path}/writers/other/leave"
    left = log.json(log.client.post(leave, json={"incarnation": 1}))
    assert (left["state"], left["ended"], left["final"]) == ("left", False, False)
    again = append_batch(log, 3, [], seal=True)  # a job that runs again ends again
    assert (again["final"], again["not_ended"]) == (False, ["other"])
    log.client.post(leave, json={"incarnation": 1, "ended": True})
    assert append_batch(log, 4, [])["code"] == "stream_sealed"


@pytest.mark.parametrize("how", ["batch", "note", "events"])
def test_a_job_that_goes_on_behind_its_end_has_not_ended(log: LogApi, how: str) -> None:
    append_batch(log, 1, [], writer="other", note_time=TIME)
    append_batch(log, 1, [], seal=True)
    if how == "events":
        log.append_lines('{"key": "a", "value": "x"}', writer="job")
    else:
        noted: dict[str, Any] = {"note_time": TIME - 5} if how == "note" else {}
        append_batch(log, 2, numbered(0, 1), **noted)
    left = append_batch(log, 2, [], writer="other", seal=True)
    assert (left["final"], left["not_ended"]) == (False, ["job"])


def test_a_batch_seals_the_stream_of_one_job_at_once(log: LogApi) -> None:
    rows = numbered(0, 2, key=KEYS[0])
    sealed = append_batch(log, 4, rows, note_time=TIME, seal=True)
    assert (sealed["final"], sealed["watermark"]) == (True, END_OF_TIME)
    assert sealed["not_ended"] == []
    assert sealed["position"] == {"0": 2}
    mark = log.json(log.client.get(f"{log.path}/watermark"))["mark"]
    assert mark["cut"] == {"0": 2, "1": 0}
    again = append_batch(log, 4, rows, note_time=TIME, seal=True)
    assert (again["duplicate"], again["last"], again["final"]) == (True, 4, True)
    assert append_batch(log, 5, rows)["code"] == "stream_sealed"


def test_the_last_number_is_returned_before_every_other_check(log: LogApi) -> None:
    incarnation = log.register("job")["incarnation"]
    assert append_batch(log, 3, [])["code"] == "incarnation_required"
    append_batch(log, 3, [], incarnation=incarnation)
    log.register("job")
    fenced = append_batch(log, 4, [], incarnation=incarnation)
    assert (fenced["status"], fenced["code"]) == (409, "writer_fenced")
    for query in ({"incarnation": incarnation}, {"note_time": "when?"}, {}):
        repeated = append_batch(log, 3, transactions=["no-such"], **query)
        assert (repeated["duplicate"], repeated["last"]) == (True, 3)


@pytest.mark.only_on("sqlite", "callers are known before any database")
def test_sealing_by_a_batch_needs_the_role_that_sealing_needs(
    serve: Serve, tmp_path: Path
) -> None:
    tokens = Tokens(tmp_path)
    writer, operator = (tokens.header(one, "tests", one) for one in ("write", "operate"))
    with serve(tokens=tokens.file) as log:
        log.client.headers.update(operator)
        log.create()
        log.client.headers.update(writer)
        assert append_batch(log, 1, [], seal=True)["code"] == "forbidden"
        left = log.client.post(f"{log.path}/writers/job/leave", json={"ended": True})
        assert left.json()["code"] == "forbidden"
        assert append_batch(log, 1, [])["duplicate"] is False


def test_the_last_number_outlives_a_restart_and_the_writer(serve: Serve) -> None:
    with serve() as log:
        log.create(writer_retention_ms=0)
        append_batch(log, 3, numbered(0, 1), note_time=TIME)
        append_batch(log, 1, [], writer="other", note_time=TIME + 9)
        log.client.post(f"{log.path}/writers/job/leave", json={})
        log.note_time(TIME + 10, "other")
        assert [one["writer"] for one in log.writers()] == ["other"]
    with serve() as log:
        assert append_batch(log, 3, numbered(0, 1))["duplicate"] is True
        assert append_batch(log, 4, numbered(1, 1))["duplicate"] is False
        assert log.events() == numbered(0, 2)
