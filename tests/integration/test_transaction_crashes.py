"""kill -9 around every step of a transaction: committed is there once, aborted never, nothing half."""

import asyncio
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import pytest

from controller.log.staging import StagedEvents
from controller.streams.transactions import TransactionCalls
from tests.effort import Effort
from tests.integration.controllers import controllers, create
from tests.integration.log_api import LogApi, numbered
from tests.integration.log_service import REFUSAL, LogService, batch_of, run_with
from tests.integration.transaction_api import (
    OpenTransaction,
    append_batch,
    begin,
    begun,
    listed,
)
from tests.patience import wait_until
from tests.postgres import Cluster
from tests.server import LAUNCHER, ServerProcess
from tidegauge.errors import UnavailableError
from tidegauge.wire.transactions import BeginTransaction
from writer_client import Writer

pytestmark = pytest.mark.about_sql

POINTS = ("before", "inside", "after")
"""Of the database's commit: before anything is written, with all of it, and before the answer."""
KEYS = ("k2", "k4")
"""One for each of two segments."""
CRASHING = """
import os, signal
from pathlib import Path
from controller.background import maintenance
from controller.log.transactions import Transactions
from controller.streams.stream import StreamState


trigger, write = Path({trigger!r}), Transactions.write

maintenance._PERIOD_S = 0.1

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def write_and_die(transactions, batch, stream_key):
    point = trigger.read_text() if transactions._changed and trigger.exists() else ""
    if point == "before":
        die()
    write(transactions, batch, stream_key)
    if point == "inside":
        batch.write_together(die, None)
    if point == "after":
        StreamState.after_commit = die

Transactions.write = write_and_die
"""


class Crashes:
    """A server that dies when it is told to, and what has to be there afterwards."""

    def __init__(self, server: ServerProcess, trigger: Path, log: LogApi) -> None:
        self.server = server
        self.trigger = trigger
        self.log = log
        self.expected = 0
        """How many events are committed."""

    def at(self, point: str) -> None:
        self.trigger.write_text(point)

    def die_in(self, point: str, call: Any) -> None:
        """Let the server die in a call, and start again."""
        self.at(point)
        with pytest.raises(httpx.TransportError):
            call()
        self.restart()

    def restart(self) -> None:
        assert self.server.process.wait(timeout=20) != 0
        self.trigger.unlink()
        self.server.start()

    def stage(self, transaction: OpenTransaction, sequence: int) -> dict[str, Any]:
        """Stage an event for each of two segments."""
        events = [event for key in KEYS for event in numbered(self.expected, 1, key=key)]
        return transaction.stage(events, sequence)

    def check(self) -> None:
        """Look that all that is committed is there once, and in all segments alike."""
        for segment, key in enumerate(KEYS):
            assert self.log.events(segment) == numbered(0, self.expected, key=key)
        assert self.log.tail() == {"0": self.expected, "1": self.expected}


@pytest.fixture
def crashes(tmp_path: Path, database_url: str) -> Iterator[Crashes]:
    trigger = tmp_path / "crash"
    launcher = CRASHING.format(trigger=str(trigger)) + LAUNCHER
    server = ServerProcess(tmp_path, database_url=database_url, launcher=launcher)
    with server, LogApi(server.url) as log:
        log.create(segments=2)
        log.register()
        yield Crashes(server, trigger, log)


def test_a_crash_around_any_step_leaves_all_or_nothing_of_it(
    crashes: Crashes, effort: Effort
) -> None:
    # Both databases end a transaction alike: in the short form one of them shows the commit alone.
    calls = [_begin, _stage, _commit, _abort]
    rounds = effort.times("rounds", short=1, long=20)
    if rounds == 1 and not crashes.server.database_url.startswith("sqlite"):
        calls = [_commit]
    steps = [(call, point) for call in calls for point in POINTS]
    for seed in range(rounds):
        random.Random(seed).shuffle(steps)
        for step, point in steps:
            step(crashes, point)
            crashes.check()


def _begin(crashes: Crashes, point: str) -> None:
    before = len(listed(crashes.log, state="open", limit=1_000))
    crashes.die_in(point, lambda: begun(crashes.log))
    now_open = listed(crashes.log, state="open", limit=1_000)
    assert len(now_open) == before + (point == "after")  # which ends with its lease


def _stage(crashes: Crashes, point: str) -> None:
    transaction = begin(crashes.log)
    crashes.die_in(point, lambda: crashes.stage(transaction, 1))
    assert crashes.stage(transaction, 1)["duplicate"] is (point == "after")
    assert transaction.commit()["state"] == "committed"
    crashes.expected += 1


def _commit(crashes: Crashes, point: str) -> None:
    transaction = begin(crashes.log)
    crashes.stage(transaction, 1)
    crashes.die_in(point, transaction.commit)
    crashes.expected += point == "after"
    assert transaction.state == ("committed" if point == "after" else "open")
    crashes.check()
    first = transaction.commit()
    crashes.expected += point != "after"
    assert first["position"] == {"0": crashes.expected, "1": crashes.expected}
    assert transaction.commit() == first


def _abort(crashes: Crashes, point: str) -> None:
    transaction = begin(crashes.log)
    crashes.stage(transaction, 1)
    crashes.die_in(point, lambda: transaction.post("abort"))
    assert transaction.state == ("aborted" if point == "after" else "open")
    if point != "after":
        transaction.post("abort")
    assert transaction.commit()["code"] == "transaction_finished"


def test_a_crash_at_the_end_of_a_lease_leaves_nothing_of_it(crashes: Crashes) -> None:
    transaction = begin(crashes.log, timeout_ms=1_000)
    crashes.stage(transaction, 1)
    crashes.at("inside")
    crashes.restart()
    wait_until(lambda: transaction.state == "aborted")
    assert transaction.commit()["code"] == "transaction_finished"
    crashes.check()


@pytest.mark.only_on("sqlite", "a batch is a commit, which is tried on both")
def test_a_crash_around_a_batch_leaves_it_there_once(crashes: Crashes) -> None:
    append_batch(crashes.log, 0, [])
    for number, point in enumerate(POINTS, 1):
        winner = begin(crashes.log, "job", incarnation=None)
        crashes.stage(winner, 1)
        ids = [winner.id]
        crashes.die_in(point, lambda: append_batch(crashes.log, number, transactions=ids))  # noqa: B023 (called at once)
        crashes.expected += point == "after"
        crashes.check()
        again = append_batch(crashes.log, number, transactions=ids)
        assert again["duplicate"] is (point == "after")
        crashes.expected += point != "after"
        crashes.check()


@pytest.mark.only_on("sqlite", "it is about the client")
def test_a_writer_repeats_a_commit_whose_answer_was_lost(crashes: Crashes) -> None:
    with (
        ThreadPoolExecutor(1) as threads,
        Writer(crashes.server.url, "tests/log", "bank") as writer,
    ):
        with writer.transaction() as one:
            for number in range(16_384):  # as many as are sent at once: all is staged by then
                one.write(str(number), key=KEYS[0])
            crashes.at("after")
            restarting = threads.submit(crashes.restart)
        restarting.result()
    assert one.position == {0: 16_384}
    assert [known["state"] for known in listed(crashes.log)] == ["committed"]
    assert crashes.log.tail() == {"0": 16_384, "1": 0}


@pytest.mark.only_on("postgresql", "controllers share it")
def test_another_controller_goes_on_with_what_is_open(cluster: Cluster, tmp_path: Path) -> None:
    with controllers(cluster, tmp_path, 2, lease_ms=1_500) as two:
        create(two.servers[0].url, "tests/log", log="embedded", segments=1)
        holder = two.holder_of("tests/log")
        (other,) = (one for one in two.servers if one is not holder)
        with LogApi(other.url) as log:
            log.register()
            transaction, dropped = begin(log), begin(log)  # passed on to the holder
            transaction.stage(numbered(0, 2), 1)
            dropped.stage(numbered(5, 2), 1)
            done = begin(log)
            first = done.commit()
            holder.kill()
            assert transaction.stage(numbered(0, 2), 1)["duplicate"] is True
            transaction.stage(numbered(2, 2), 2)
            assert done.commit() == first
            dropped.post("abort")
            committed = transaction.commit()
            assert committed["position"] == {"0": 4}
            holder.start()
            with LogApi(holder.url) as back:
                assert OpenTransaction(back, transaction.id).commit() == committed
                assert back.events() == numbered(0, 4)


def test_a_repeated_commit_is_answered_once_the_first_is_on_disk(database_url: str) -> None:
    async def repeat(log: LogService) -> None:
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

    run_with(database_url, repeat)
