"""The services of docker-compose.yml as plain processes on loopback.

What a container engine would do is done here: an image is the environment of its role, a name in
the network is a port of loopback, a volume is a folder, and what a service needs is waited for.
"""

import os
import re
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self
from urllib.parse import urlencode

import httpx
import pytest
from psycopg import sql

from tests.acceptance.compose import Service
from tests.acceptance.images import Images
from tests.broker import Broker
from tests.linked import ROOT
from tests.postgres import running_cluster
from tests.quick_spark import QUICK_JAVA
from tests.server import free_port

_DATABASE = "postgres"
_BROKER = "kafka"
_LOOPBACK = "127.0.0.1"
_ANYWHERE = "0.0.0.0"
_PATIENCE_S = 120.0
_STOP_S = 20.0


class LocalCluster:
    """All services of the file, with a directory for volumes, logs and environments of roles."""

    def __init__(self, services: dict[str, Service], directory: Path) -> None:
        self._services = services
        self._directory = directory
        self._ports = defaultdict[tuple[str, str], int](free_port)
        self._images = Images()
        self._programs: dict[str, Path] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._sockets: dict[str, str] = {}
        self._well: set[str] = set()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        waiting = dict(self._services)
        names = ", ".join(waiting)
        try:
            self.wait_until(lambda: self._start(waiting), f"{names} to start", _PATIENCE_S)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End everything, the database last, as an engine does."""
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_S)
            _kill(process)
        self._stack.close()

    def port(self, service: str, port: str) -> int:
        """Find where a port of a service is on loopback."""
        return self._ports[service, port]

    def url(self, service: str, port: str = "8470", *, scheme: str = "http") -> str:
        """Write the address of a service on loopback."""
        return f"{scheme}://{_LOOPBACK}:{self.port(service, port)}"

    def output(self, service: str) -> str:
        """Read what a service has said."""
        log = self._log(service)
        return log.read_text() if log.exists() else ""

    def crash(self, service: str) -> None:
        """Kill a service, which the engine then starts anew."""
        _kill(self.processes[service])
        self._launch(self._services[service])

    def is_well(self, service: str) -> bool:
        """Ask a service's own health check."""
        return self.execute(service, self._services[service].health).returncode == 0

    def execute(self, service: str, command: list[str]) -> subprocess.CompletedProcess[str]:
        """Run a command in the container of a service."""
        described = self._services[service]
        return subprocess.run(
            self._localized(described, command),
            env=self._environment(described),
            cwd=self._directory,
            capture_output=True,
            text=True,
            check=False,
        )

    def seats_taken(self, *controllers: str, scheme: str = "http") -> int:
        """Count the long polls that controllers hold."""
        urls = [self.url(name, scheme=scheme) for name in controllers]
        shown = "".join(httpx.get(f"{url}/metrics", verify=False).text for url in urls)
        return sum(map(int, re.findall(r"\ntidegauge_long_polls (\d+)", shown)))

    def database_url(self, name: str) -> str:
        """Write the address of a database as the owner has it."""
        user = self._services[_DATABASE].environment["POSTGRES_USER"]
        return f"postgresql://{user}@/{name}?{urlencode(self._sockets)}"

    def wait_until(self, done: Callable[[], bool], what: str, patience_s: float) -> None:
        """Wait for something, while no service breaks down."""
        deadline = time.monotonic() + patience_s
        while not done():
            for name in self._services.keys() & self.processes.keys():
                if self.processes[name].poll():
                    pytest.fail(f"{name} ended: {self.output(name)}")
            if time.monotonic() > deadline:
                logs = "\n".join(f"{one}:\n{self.output(one)}" for one in self._services)
                pytest.fail(f"waited {patience_s:.0f} s for {what}\n{logs}")
            time.sleep(0.1)

    def _start(self, waiting: dict[str, Service]) -> bool:
        """Start those that need nothing any more; return whether all are started."""
        for service in list(waiting.values()):
            if all(self._meets(*needed) for needed in service.needs.items()):
                self._launch(waiting.pop(service.name))
        return not waiting

    def _meets(self, name: str, condition: str) -> bool:
        if condition == "service_completed_successfully":
            return name in self.processes and self.processes[name].poll() == 0
        assert condition == "service_healthy"
        is_started = name in (_DATABASE, _BROKER) or name in self.processes
        if name not in self._well and is_started:
            self._well |= {name} if self.is_well(name) else set()
        return name in self._well

    def _launch(self, service: Service) -> None:
        if service.name == _DATABASE:
            self._start_database(service)
            return
        if service.name == _BROKER:  # as far as its image would: on loopback, and in a folder
            port = self.port(_BROKER, service.environment["HEALTH_PORT"])
            self._stack.enter_context(Broker(self._directory / _BROKER, port=port))
            return
        with self._log(service.name).open("ab") as log:
            process = subprocess.Popen(
                self._localized(service, service.command),
                env=self._environment(service),
                cwd=self._directory,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.processes[service.name] = process

    def _start_database(self, service: Service) -> None:
        """Start PostgreSQL, and make what its image makes."""
        port = self.port(_DATABASE, service.environment["PGPORT"])
        cluster = self._stack.enter_context(running_cluster(port=port))
        self._sockets = {"host": str(cluster.directory), "port": str(port)}
        name, user, password = (
            service.environment[f"POSTGRES_{one}"] for one in ("DB", "USER", "PASSWORD")
        )
        with cluster.connect() as connection:
            alter = sql.SQL("ALTER ROLE {} PASSWORD {}")
            connection.execute(alter.format(sql.Identifier(user), sql.Literal(password)))
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))

    def _environment(self, service: Service) -> dict[str, str]:
        """Make a container's environment: nothing of this process but where programs are."""
        path = [os.environ["PATH"], "/usr/sbin"]
        variables = {"HOME": str(self._directory), "JAVA_TOOL_OPTIONS": QUICK_JAVA}
        if "JAVA_HOME" in os.environ:
            variables["JAVA_HOME"] = os.environ["JAVA_HOME"]
        if service.name == _DATABASE:
            variables["PGHOST"] = self._sockets["host"]
        if (role := service.role) is not None:
            if role not in self._programs:
                folder = self._directory / "images" / role
                self._programs[role] = self._images.make_environment(role, folder)
            path.insert(0, str(self._programs[role]))
            variables |= self._images.variables(role)
        for name, value in service.environment.items():
            is_port = name.endswith("PORT")
            variables[name] = (
                str(self.port(service.name, value)) if is_port else self._place(service, value)
            )
        return variables | {"PATH": os.pathsep.join(path)}

    def _place(self, service: Service, text: str) -> str:
        """Replace names of the network, and places of volumes, by those on this machine."""
        if text in self._services or text == _ANYWHERE:
            return _LOOPBACK
        (placed,) = self._localized(service, [text])
        names = "|".join(map(re.escape, [*self._services, _LOOPBACK]))

        def local(found: re.Match[str]) -> str:
            name = service.name if found[1] == _LOOPBACK else found[1]
            return f"{_LOOPBACK}:{self.port(name, found[2])}"

        return re.sub(rf"\b({names}):(\d+)\b", local, placed)

    def _localized(self, service: Service, words: list[str]) -> list[str]:
        """Replace the places of volumes; a command names nothing else of the container."""
        for place, source in service.mounts.items():
            is_ours = source.startswith("./")
            folder = ROOT / source if is_ours else self._directory / "volumes" / source
            if not is_ours:
                folder.mkdir(parents=True, exist_ok=True)
            words = [word.replace(place, str(folder)) for word in words]
        return words

    def _log(self, service: str) -> Path:
        return self._directory / f"{service}.log"


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a service and all that it started, none of which outlives it in a container."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
