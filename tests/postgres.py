"""A temporary PostgreSQL cluster for tests and benchmarks, of Debian's package."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from controller import upgrade_database
from controller.database.migration import SERVER
from tests.patience import wait_until

_DEBIAN = Path("/usr/lib/postgresql")
_PORT, _POOLER_PORT = 5432, 6432
_START_S = 30.0
_UP_TO_DATE = "up_to_date"
_USER = "tidegauge"


class Cluster:
    """One server that listens on a socket in a directory of its own, where nobody is asked.

    Its directory is short, since the path of a socket is. See `running_cluster`.
    """

    def __init__(self, directory: Path, *, durable: bool, port: int | None) -> None:
        self.directory = directory
        self._port = port or _PORT
        self._settings = {
            "listen_addresses": "127.0.0.1" if port else "",
            "port": self._port,
            "unix_socket_directories": directory,
            "fsync": "on" if durable else "off",
            "max_connections": 200,
        }
        self._names = count()
        self._has_template = False
        self._process: subprocess.Popen[bytes]

    def make(self) -> None:
        """Make the files, as a user that PostgreSQL accepts."""
        if os.geteuid() == 0:
            os.chown(self.directory, pwd.getpwnam(_owner()).pw_uid, -1)
        options = ["--auth-local=trust", "--auth-host=scram-sha-256", f"--username={_USER}"]
        options += ["--no-sync", "--encoding=UTF8", "--locale=C", f"--pgdata={self._files}"]
        subprocess.run(
            [_binary("initdb"), *options],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=self.directory,
            **_as_owner(),
        )

    def start(self) -> None:
        """Start, and wait until it answers."""
        options = [f"-c{name}={value}" for name, value in self._settings.items()]
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [_binary("postgres"), f"-D{self._files}", *options],
                stdout=log,
                stderr=log,
                cwd=self.directory,
                **_as_owner(),
            )
        deadline = time.monotonic() + _START_S
        while not self._answers():
            assert self._process.poll() is None, (self.directory / "log").read_text()
            assert time.monotonic() < deadline, "PostgreSQL does not start"
            time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop at once; connections are cut."""
        self._process.send_signal(how)
        self._process.wait(timeout=30)

    def restart(self) -> None:
        """Stop and start."""
        self.stop()
        self.start()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop all of its processes meanwhile; connections stay open."""
        processes = [self._process.pid]
        os.kill(processes[0], signal.SIGSTOP)  # first, since it could start others
        children = Path(f"/proc/{processes[0]}/task/{processes[0]}/children")
        processes += map(int, children.read_text().split())
        try:
            for one in processes[1:]:
                os.kill(one, signal.SIGSTOP)
            yield
        finally:
            for one in reversed(processes):
                os.kill(one, signal.SIGCONT)

    def empty_database(self) -> str:
        """Make a database without a schema, and return its address."""
        return self._new_database("template1")

    def database(self) -> str:
        """Make an empty database whose schema is up to date, and return its address."""
        if not self._has_template:
            self._create(_UP_TO_DATE, "template1")
            upgrade_database(self.url(_UP_TO_DATE))
            self._has_template = True
        url = self._new_database(_UP_TO_DATE)
        with self.connect(self.name_of(url)) as connection:  # in a copy, free is not free
            connection.execute(f"UPDATE holder SET server = ({SERVER})".encode())
        return url

    def url(self, name: str, place: Path | None = None) -> str:
        """Write the address of a database, whose server a place leads to: a link to the directory of one."""
        return f"postgresql://{_USER}@/{name}?host={place or self.directory}&port={self._port}"

    @staticmethod
    def name_of(url: str) -> str:
        """Read the name of a database from its address."""
        return url.partition("@/")[2].partition("?")[0]

    def connect(self, name: str = "postgres") -> psycopg.Connection[Any]:
        """Connect, every statement a transaction of its own."""
        return psycopg.connect(self.url(name), autocommit=True)

    def copy_to(self, replica: "Cluster", place: Path) -> None:
        """Make another server that follows this one, as long as a place leads here."""
        if os.geteuid() == 0:
            os.chown(replica.directory, pwd.getpwnam(_owner()).pw_uid, -1)
        made = [f"-h{self.directory}", f"-p{self._port}", f"-U{_USER}", f"-D{replica._files}"]
        how: dict[str, Any] = {"capture_output": True, "cwd": "/", **_as_owner()}
        subprocess.run(
            [_binary("pg_basebackup"), *made, "-cfast", "--no-sync"], check=True, **how
        )
        subprocess.run(["touch", str(replica._files / "standby.signal")], check=True, **how)
        replica._settings["primary_conninfo"] = f"host={place} port={self._port} user={_USER}"
        replica.start()

    def promote(self) -> None:
        """Let a replica take writes from now on."""
        with self.connect() as connection:
            connection.execute("SELECT pg_promote()")

    @property
    def _files(self) -> Path:
        return self.directory / "data"

    def _answers(self) -> bool:
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def _new_database(self, template: str) -> str:
        name = f"test_{next(self._names)}"
        self._create(name, template)
        return self.url(name)

    def _create(self, name: str, template: str) -> None:
        command = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        with self.connect() as connection:
            connection.execute(command.format(sql.Identifier(name), sql.Identifier(template)))


@contextmanager
def running_cluster(*, durable: bool = False, port: int | None = None) -> Iterator[Cluster]:
    """Make and start a cluster; stop and remove it in the end.

    Tests that only kill processes do without commits that wait for the disk. At a port of loopback
    passwords are asked for.
    """
    with tempfile.TemporaryDirectory(prefix="pg") as directory:
        cluster = Cluster(Path(directory), durable=durable, port=port)
        cluster.make()
        cluster.start()
        try:
            yield cluster
        finally:
            cluster.stop(signal.SIGQUIT)


@contextmanager
def pooled(cluster: Cluster, database_url: str, mode: str) -> Iterator[str]:
    """Start PgBouncer in front of a cluster, and yield the address of a database behind it."""
    program = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
    file = cluster.directory / "pgbouncer.ini"
    file.write_text(
        f"[databases]\n* = host={cluster.directory} user={_USER}\n[pgbouncer]\npool_mode = {mode}\n"
        f"listen_port = {_POOLER_PORT}\nunix_socket_dir = {cluster.directory}\nauth_type = any\n"
    )
    command = [program, "--quiet", str(file)]
    with subprocess.Popen(command, cwd=cluster.directory, **_as_owner()) as process:
        try:
            socket = cluster.directory / f".s.PGSQL.{_POOLER_PORT}"
            wait_until(lambda: socket.exists() or process.poll() is not None)
            yield f"{database_url.rpartition('=')[0]}={_POOLER_PORT}"
        finally:
            process.terminate()  # at once; it removes its socket
            process.wait(timeout=30)


def _binary(name: str) -> str:
    """Find a program of PostgreSQL; Debian keeps them off the path."""
    found = sorted(_DEBIAN.glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    program = shutil.which(name) or (str(found[-1]) if found else None)
    assert program, "the tests start PostgreSQL: run scripts/install_test_tools.sh"
    return program


def _as_owner() -> dict[str, Any]:
    """Run as another user if this is root, whom PostgreSQL refuses."""
    return {"user": _owner(), "extra_groups": []} if os.geteuid() == 0 else {}


def _owner() -> str:
    names = {one.pw_name for one in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"
