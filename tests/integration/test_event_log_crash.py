"""What was acknowledged survives kill -9, once and in order; compaction is not noticed."""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from sqlalchemy import text

from tests.conftest import NewServer
from tests.effort import Effort
from tests.integration.log_api import LogApi, numbered
from tests.integration.sessions import connected
from tests.patience import wait_until
from tests.server import LAUNCHER, ServerProcess

pytestmark = pytest.mark.about_sql

OFTEN_COMPACTING = (
    "from controller.background import maintenance\nmaintenance._PERIOD_S = 0.1\n" + LAUNCHER
)
KEYS = ("k2", "k0", "k4")
"""One for each of three segments."""


@pytest.fixture
def log(server: ServerProcess) -> Iterator[LogApi]:
    with LogApi(server.url) as api:
        yield api


def chunk_count(database_url: str) -> int:
    with connected(database_url) as connection:
        count: int = connection.execute(text("SELECT count(*) FROM chunks")).scalar_one()
    return count


class Appender(threading.Thread):
    """Appends five events at a time for ever, repeating what was not answered."""

    def __init__(self, server: ServerProcess, *, segment: int) -> None:
        super().__init__(daemon=True)
        self.log = LogApi(server.url)
        self.segment = segment
        self.acknowledged = 0
        self.stopped = threading.Event()

    def run(self) -> None:
        with self.log:
            self.append_until_stopped()

    def append_until_stopped(self) -> None:
        while not self.stopped.is_set():
            sequence = self.acknowledged + 1
            try:
                events = numbered(5 * sequence - 5, 5, key=KEYS[self.segment])
                answer = self.log.append(events, sequence, segment=self.segment)
            except httpx.TransportError:
                time.sleep(0.01)
                continue
            if answer.get("code") == "unavailable":  # a start that takes longer than a second
                time.sleep(0.01)
                continue
            assert answer["next_offset"] == 5 * sequence, answer
            self.acknowledged = sequence


@contextmanager
def _appending(server: ServerProcess) -> Iterator[list[Appender]]:
    """One for each segment; they have ended afterwards, whatever happened."""
    appenders = [Appender(server, segment=segment) for segment in range(3)]
    for appender in appenders:
        appender.start()
    try:
        yield appenders
    finally:
        for appender in appenders:
            appender.stopped.set()
        for appender in appenders:
            appender.join()


def _wait_until_all_went_on(appenders: list[Appender]) -> None:
    before = [appender.acknowledged for appender in appenders]

    def went_on() -> bool:
        assert all(appender.is_alive() for appender in appenders)
        return all(one.acknowledged > seen for one, seen in zip(appenders, before, strict=True))

    wait_until(went_on)


def test_acknowledged_appends_survive_kill_9_once_and_in_order(
    server: ServerProcess, log: LogApi, effort: Effort
) -> None:
    log.create(segments=3)
    log.register()
    moments = random.Random(7)
    with _appending(server) as appenders:
        for _ in range(effort.times("kills", short=3, long=50)):
            _wait_until_all_went_on(appenders)
            time.sleep(moments.random() / 20)
            server.kill()
            server.start()
        _wait_until_all_went_on(appenders)
    for appender in appenders:
        stored = log.events(appender.segment)
        assert len(stored) == 5 * appender.acknowledged
        assert stored == numbered(0, len(stored), key=KEYS[appender.segment])


def test_an_idempotency_key_is_known_after_kill_9(server: ServerProcess, log: LogApi) -> None:
    log.create()
    line = '{"key": "a", "value": "x"}'
    assert log.append_lines(line, key="one")["position"] == {"0": 1}
    server.kill()
    server.start()
    with LogApi(server.url) as again:
        assert again.append_lines(line, key="one")["position"] == {"0": 1}
        assert again.tail() == {"0": 1}


def test_compaction_keeps_events_offsets_and_times(tmp_path: Path, database_url: str) -> None:
    server = ServerProcess(tmp_path, database_url=database_url, launcher=OFTEN_COMPACTING)
    with server, LogApi(server.url) as log:
        _append_and_compact(server, log, database_url)


def _append_and_compact(server: ServerProcess, log: LogApi, database_url: str) -> None:
    log.create()
    log.register()
    events = [(f"k{n}", (n * 37) % 400 + n, b"%d" % n) for n in range(400)]
    for n, event in enumerate(events, start=1):
        log.append([event], n)
        if n % 200 == 0:
            assert log.events() == events[:n]
    starts = [log.start_of(time)["0"] for time in range(0, 900, 50)]

    def is_compacted() -> bool:
        assert log.events() == events
        return chunk_count(database_url) <= 40

    wait_until(is_compacted)
    assert log.events() == events
    assert [log.start_of(time)["0"] for time in range(0, 900, 50)] == starts
    body = log.read(start=123, end=124)
    assert body.first_offset <= 123 < body.first_offset + body.table.num_rows
    inside = 123 - body.first_offset
    assert body.table.slice(inside, 1).to_pylist()[0]["value"] == b"123"
    server.kill()
    server.start()
    with LogApi(server.url) as again:
        assert again.tail() == {"0": 400}
        assert again.append([events[-1]], 400)["duplicate"] is True
        assert again.events() == events


@pytest.mark.only_on("sqlite", "only a file's size is bounded by the service")
def test_a_full_database_refuses_appends_and_keeps_what_it_has(
    new_server: NewServer,
) -> None:
    with new_server(max_database_bytes=2_000_000) as server, LogApi(server.url) as log:
        log.create()
        log.register()
        value = random.Random(1).randbytes(50_000)
        sequence = 1
        answer = log.append([("a", 0, value)], sequence)
        while "next_offset" in answer:
            sequence += 1
            answer = log.append([("a", sequence, value)], sequence)
        assert (answer["status"], answer["code"]) == (503, "unavailable")
        assert log.tail() == {"0": sequence - 1}
        assert log.append([("a", sequence, value)], sequence)["code"] == "unavailable"
        assert log.append([("a", sequence - 1, value)], sequence - 1)["duplicate"] is True
        assert [time for _, time, _ in log.events()][1:] == list(range(2, sequence))
        assert isinstance(log.read(start=sequence - 2).table, pa.Table)
