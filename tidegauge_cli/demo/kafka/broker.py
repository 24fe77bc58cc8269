"""A Kafka broker of one's own: one process in KRaft mode, in a folder."""

import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from typing import Self

from tidegauge_cli.demo.kafka.jars import broker_jars
from tidegauge_cli.demo.waiting import DemoFailedError, wait_until

_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
log.dirs={folder}/data
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
log.retention.check.interval.ms=1000
log.cleaner.backoff.ms=500
log.initial.task.delay.ms=1000
broker.heartbeat.interval.ms=200
broker.session.timeout.ms=2000
"""
_JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_STOP_S = 20


class Broker:
    """A broker on a port of loopback, which keeps its port and its data over restarts.

    Parameters
    ----------
    folder
        Where its data and its log go.
    port
        Where it listens; a free one if left out.
    settings
        Further settings of the broker.

    Raises
    ------
    DemoFailedError
        If it cannot be fetched or does not start; it says the cure.
    """

    def __init__(self, folder: Path, *, port: int | None = None, **settings: object) -> None:
        self.folder = folder
        self.log = folder / "broker.log"
        self.port, controller = port or _free_port(), _free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self._jars = broker_jars()
        self._process: subprocess.Popen[bytes] | None = None
        self._told = 0
        folder.mkdir(parents=True, exist_ok=True)
        self._settings = folder / "broker.properties"
        more = "".join(f"{name}={value}\n" for name, value in settings.items())
        named = _SETTINGS.format(port=self.port, controller=controller, folder=folder)
        self._settings.write_text(named + more)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start, and wait until it answers; if that fails or is interrupted, nothing is left."""
        try:
            if not (self.folder / "data").exists():
                self._format()
            self._told = self.log.stat().st_size
            self._process = self._java("kafka.Kafka", str(self._settings))
            wait_until(self._answers, "the broker to start", go_on=self._check)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Ask it to end."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a power cut would."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Let it hang, with its connections open."""
        self._send(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._send(signal.SIGCONT)

    def _send(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _format(self) -> None:
        words = ("format", "--standalone", "--cluster-id", "dGlkZWdhdWdlLWRlbW8wMA")
        self._process = self._java(
            "kafka.tools.StorageTool", *words, "--config", str(self._settings)
        )
        if self._process.wait() != 0:
            self._fail()

    def _java(self, main: str, *words: str) -> subprocess.Popen[bytes]:
        java = shutil.which("java")
        if java is None:
            msg = "Java 17 or newer is missing, which runs Kafka"
            raise DemoFailedError(msg)
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [java, *_JVM, "-cp", f"{self._jars}/*", main, *words],
                stdout=log,
                stderr=log,
                env={**os.environ, "LOG_DIR": str(self.folder)},
            )

    def _answers(self) -> bool:
        """Whether it takes calls; its port is open a while before."""
        return b"Kafka Server started" in self.log.read_bytes()[self._told :]

    def _check(self) -> None:
        if self._process is not None and self._process.poll() is not None:
            self._fail()

    def _fail(self) -> None:
        last = self.log.read_text(errors="replace").strip()[-1_000:]
        msg = f"the broker does not start; {self.log} ends with: {last}"
        raise DemoFailedError(msg)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port
