"""A Kafka broker for tests: one process in KRaft mode, in a folder.

    python -m tests.broker COMMAND...    # run a command with a broker of its own

It is on a free port, or on ``KAFKA_PORT``. The command finds its address in ``KAFKA_BOOTSTRAP``, and in ``KAFKA_JARS`` the folder with the jars of
Spark's Kafka connector.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from tests.kafka_jars import broker_jars, connector_jars
from tests.patience import wait_until
from tests.server import free_port

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
JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Of processes that live for a minute: they compile once and lightly."""
_STOP_S = 20


class Broker:
    """A broker on a port of loopback, which keeps its port and its data, in a folder, over restarts.

    If it cannot be fetched or does not start, a `RuntimeError` names the cure.
    """

    def __init__(self, folder: Path, *, port: int | None = None, **settings: object) -> None:
        self.folder = folder
        self.log = folder / "broker.log"
        self.port, controller = port or free_port(), free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self._jars = broker_jars()
        self._process: subprocess.Popen[bytes] | None = None
        self._log_before = 0
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
            self._log_before = self.log.stat().st_size
            self._process = self._java("kafka.Kafka", str(self._settings))
            wait_until(self._answers)
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
        """Stop it where it is, as a machine without time does; what it gets waits in its sockets."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
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
        settings = ("--config", str(self._settings))
        self._process = self._java("kafka.tools.StorageTool", *words, *settings)
        if self._process.wait() != 0:
            self._fail()

    def _java(self, main: str, *words: str) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                ["java", *JVM, "-cp", f"{self._jars}/*", main, *words],
                stdout=log,
                stderr=log,
                env={**os.environ, "LOG_DIR": str(self.folder)},
            )

    def _answers(self) -> bool:
        """Return whether it takes calls; its port is open a while before."""
        if self._process is not None and self._process.poll() is not None:
            self._fail()
        return b"Kafka Server started" in self.log.read_bytes()[self._log_before :]

    def _fail(self) -> None:
        last = self.log.read_text(errors="replace").strip()[-1_000:]
        msg = f"the broker does not start; {self.log} ends with: {last}"
        raise RuntimeError(msg)


def main() -> int:
    """Run a command with a broker of its own, and return its exit status."""
    port = int(os.environ.get("KAFKA_PORT", "0")) or None
    with TemporaryDirectory() as folder, Broker(Path(folder) / "broker", port=port) as broker:
        jars = connector_jars()[0].parent
        places = {"KAFKA_BOOTSTRAP": broker.bootstrap, "KAFKA_JARS": str(jars)}
        return subprocess.call(sys.argv[1:], env=os.environ | places)


if __name__ == "__main__":
    sys.exit(main())
