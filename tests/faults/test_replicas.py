"""A replica of PostgreSQL that takes the place of its server: who holds, and what is lost."""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGKILL, SIGQUIT
from typing import Any

import psycopg
import pytest

from controller.database import DatabaseAddress, PostgresSession, postgresql
from controller.database.interface import DatabaseUnusableError
from tests.patience import wait_until
from tests.postgres import Cluster, running_cluster
from tests.server import ServerProcess
from tests.service.controllers import (
    NOW,
    STREAM,
    answers,
    controller,
    create,
    is_ready,
    note,
    watermark,
)
from tidegauge.errors import UnavailableError

LEASE_MS = 3_000


class Pair:
    """A server, its replica, and controllers, each of which reaches whichever its own link leads to."""

    def __init__(self, primary: Cluster, replica: Cluster, links: Path) -> None:
        self.primary, self.replica, self.links = primary, replica, links
        self.name = primary.name_of(primary.database())
        self._link("replica", primary)
        primary.copy_to(replica, links / "replica")

    @contextmanager
    def controller(self, name: str, **options: Any) -> Iterator[ServerProcess]:
        """Run one, with a link of its own."""
        self._link(name, self.primary)
        (self.links.parent / name).mkdir()
        url = self.primary.url(self.name, self.links / name)
        server = controller(self.links.parent / name, url, **{"lease_ms": LEASE_MS} | options)
        server.launch()
        try:
            wait_until(lambda: answers(server))
            yield server
        finally:
            server.__exit__()

    def wait_for_replica(self) -> None:
        """Wait until the replica has all that is committed."""
        with self.primary.connect() as primary, self.replica.connect() as replica:
            (end,) = primary.execute("SELECT pg_current_wal_lsn()").fetchone() or [None]
            reached = "SELECT pg_last_wal_replay_lsn() >= %s"
            wait_until(lambda: replica.execute(reached, [end]).fetchone() == (True,))

    def cut_replica(self) -> None:
        """Let the replica hear of nothing any more."""
        (self.links / "replica").unlink()
        with self.primary.connect() as connection:
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_replication")

    def fail_over(self, *heard_by: str) -> None:
        """Lose the server, promote the replica, and lead some controllers there."""
        self.primary.stop(SIGKILL)
        self.replica.promote()
        for name in heard_by:
            self._link(name, self.replica)

    def _link(self, name: str, cluster: Cluster) -> None:
        (self.links / "new").symlink_to(cluster.directory)
        (self.links / "new").rename(self.links / name)


@pytest.fixture
def pair() -> Iterator[Pair]:
    with (
        running_cluster() as primary,
        tempfile.TemporaryDirectory(prefix="pg") as directory,
        tempfile.TemporaryDirectory(prefix="tg") as place,
    ):
        replica = Cluster(Path(directory), durable=False, port=None)
        links = Path(place) / "to"
        links.mkdir()
        Path(place).chmod(0o755)  # PostgreSQL runs as another user
        try:
            yield Pair(primary, replica, links)
        finally:
            replica.stop(SIGQUIT)


@pytest.mark.parametrize("former", ["left", "was killed and had a shorter lease"])
def test_two_never_answer_where_the_replica_lacks_the_latest_take_over(
    pair: Pair, former: str
) -> None:
    with (
        pair.controller("first", lease_ms=500) as first,
        pair.controller("second") as second,
        pair.controller("third") as third,
    ):
        wait_until(lambda: is_ready(first))
        create(first.url, STREAM)
        note(first.url, STREAM, 1)
        pair.wait_for_replica()
        if former == "left":
            first.stop()
            pair.wait_for_replica()
            pair.cut_replica()
        else:
            pair.cut_replica()
            first.kill()
        wait_until(lambda: is_ready(second) or is_ready(third))
        holder, standby = (second, third) if is_ready(second) else (third, second)
        assert note(holder.url, STREAM, 5).status_code == 200
        pair.fail_over("second" if standby is second else "third")
        _wait_and_judge(holder, standby)
        assert watermark(standby) == NOW + 1  # what the replica lacked is nowhere


def _wait_and_judge(holder: ServerProcess, standby: ServerProcess) -> None:
    """Wait until a standby holds: from then on the former holder answers nothing that is older."""
    lost_at = time.monotonic()
    while not is_ready(standby):
        assert time.monotonic() - lost_at < 60, standby.log.read_text()
    assert not is_ready(holder)
    with pytest.raises(KeyError):  # 503, or where to ask
        watermark(holder)


def test_a_holder_whose_database_went_back_starts_over_and_nobody_shows_what_is_lost(
    pair: Pair,
) -> None:
    with pair.controller("first") as holder, pair.controller("second") as standby:
        wait_until(lambda: is_ready(holder))
        create(holder.url, STREAM)
        note(holder.url, STREAM, 1)
        pair.wait_for_replica()
        pair.cut_replica()
        assert note(holder.url, STREAM, 5).json()["watermark"] == NOW + 5
        pair.fail_over("first", "second")
        wait_until(lambda: "starts over: the database " in holder.log.read_text())
        wait_until(lambda: is_ready(holder) or is_ready(standby))
        new = holder if is_ready(holder) else standby
        assert watermark(new) == NOW + 1
        assert note(new.url, STREAM, 3).json()["watermark"] == NOW + 3


def test_a_row_that_somebody_deletes_is_waited_for_like_one_that_is_held(pair: Pair) -> None:
    with pair.controller("first") as holder, pair.controller("second") as standby:
        wait_until(lambda: is_ready(holder))
        create(holder.url, STREAM)
        note(holder.url, STREAM, 5)
        (pair.links / "first").unlink()  # it reaches the database no more
        with psycopg.connect(pair.primary.url(pair.name), autocommit=True) as connection:
            ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> "
            connection.execute("DELETE FROM holder")
            connection.execute(
                f"{ended} pg_backend_pid() AND datname = current_database()".encode()
            )
        _wait_and_judge(holder, standby)
        assert watermark(standby) == NOW + 5


def test_a_session_never_stays_on_a_replica_and_may_begin_while_that_is_promoted(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    address = DatabaseAddress.parse(pair.replica.url(pair.name))
    on_replica = PostgresSession(address, patience_s=5)
    with pytest.raises(DatabaseUnusableError, match="recovery"):
        on_replica.check_schema()
    with pytest.raises(UnavailableError, match="it is a replica still"):
        asyncio.run(on_replica.run(lambda _connection: None))
    assert caplog.records == []  # whoever waits for the promotion says so, once
    on_replica.close()
    # A promotion behind LISTEN: what is read then is of the server that it has become.
    monkeypatch.setattr(postgresql, "_LISTEN", "SELECT 1")
    server_of = postgresql.server_of

    def promoted_first(connection: Any) -> str:
        if not server_of(connection):
            pair.replica.promote()
        return server_of(connection)

    monkeypatch.setattr(postgresql, "server_of", promoted_first)
    promoted = PostgresSession(address, patience_s=30)
    promoted.check_schema()
    assert promoted.server
    promoted.close()


def test_nothing_is_lost_where_the_replica_is_synchronous(pair: Pair) -> None:
    with pair.primary.connect() as connection:
        connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        connection.execute("SELECT pg_reload_conf()")
    with pair.controller("first") as holder, pair.controller("second") as standby:
        wait_until(lambda: is_ready(holder))
        create(holder.url, STREAM)
        for at in range(1, 9):
            assert note(holder.url, STREAM, at).status_code == 200
        pair.fail_over("second")
        _wait_and_judge(holder, standby)
        assert watermark(standby) == NOW + 8
