"""Producers in Java that note time by the interceptor alone, and the judge of what they noted."""

import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile, mkdtemp
from typing import Any, NamedTuple
from uuid import uuid4

from confluent_kafka import Consumer, TopicPartition

from tests.broker import JVM, Broker
from tests.kafka import create_topic, quiet
from tests.kafka_jars import client_jars, producer_jars
from tests.patience import PATIENCE_S
from tests.service.api import Api
from tidegauge.client.kafka import Topic

_ROOT = Path(__file__).parents[1]
SOURCE = (
    _ROOT / "examples" / "kafka_interceptor" / "src" / "tidegauge" / "NotingInterceptor.java"
)
DRIVER = _ROOT / "tests" / "Drive.java"
HAS_JAVA = shutil.which("javac") is not None
_LOGGING = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"

Edit = tuple[str, str]
"""A text of the interceptor, and what a seeded bug has in its place."""


@cache
def compiled(*edits: Edit) -> Path:
    """Compile the interceptor and the driver against the oldest clients; with a seeded bug, if edits are given."""
    folder = Path(mkdtemp(prefix="interceptor-"))
    text = SOURCE.read_text()
    for right, wrong in edits:
        assert text.count(right) == 1, right
        text = text.replace(right, wrong)
    copy = folder / SOURCE.name
    copy.write_text(text)
    quick = [f"-J{flag}" for flag in JVM]
    places = ["-d", str(folder), "-cp", f"{client_jars()}/*"]
    command = ["javac", *quick, *places, str(copy), str(DRIVER)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return folder


class Late(NamedTuple):
    """A record beyond the cut of a mark, and older than it."""

    partition: int
    offset: int
    timestamp: int
    lower: int


class Program:
    """A program in Java that runs; the driver does what it is told."""

    def __init__(self, process: "subprocess.Popen[str]", log: Path) -> None:
        self.process = process
        self._log = log

    def ask(self, command: str) -> list[str]:
        """Let the driver do something; return how that ended, and how many were stored and failed so far."""
        self.write(command)
        return self.answer()

    def write(self, command: str) -> None:
        """Let the driver do something; `answer` waits for its end."""
        assert self.process.stdin is not None
        print(command, file=self.process.stdin, flush=True)

    def tell(self, command: str) -> str:
        """Let the driver do something, and return how that ended."""
        return self.ask(command)[0]

    def counts(self) -> tuple[int, int]:
        """Flush, and return how many records were stored and how many failed, as the producer reported."""
        _, stored, failed = self.ask("flush")
        return int(stored), int(failed)

    def end(self) -> None:
        """Let it close the producer, and wait for its end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(PATIENCE_S) == 0, self.logged

    def pause(self) -> None:
        """Stop the process where it is."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self.process.send_signal(signal.SIGCONT)

    @property
    def logged(self) -> str:
        """What it logged."""
        return self._log.read_text(errors="replace")

    def answer(self) -> list[str]:
        """Read the next answer of the driver."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.logged
        return line.split()


class Noted(Api):
    """A stream with a topic of its name, and producers to it that are told nothing but settings."""

    def __init__(
        self,
        url: str,
        broker: Broker,
        partitions: int = 2,
        *,
        calls: str | None = None,
        kafka: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        **topic: object,
    ) -> None:
        """Make both; tests call the service at ``calls`` with headers, and Kafka with its settings."""
        super().__init__(calls or url, f"kafka/noted-{uuid4().hex[:12]}")
        self.client.headers.update(headers or {})
        self.bootstrap = broker.bootstrap
        self.urls = url
        self.kafka = {"bootstrap.servers": broker.bootstrap} | (kafka or {})
        self.create(segments=partitions)
        create_topic(self.kafka, self.topic, partitions=partitions, **topic)

    def create(self, **settings: object) -> Any:
        """Create the stream: every note makes a mark, so that the judge sees all of them."""
        return super().create(mark_resolution_ms=0, **settings)

    def settings(self, writer: str, **more: object) -> dict[str, str]:
        """Make the settings of a producer; ``_`` stands for each ``.``."""
        named = {name.replace("_", "."): str(value) for name, value in more.items()}
        return {
            "bootstrap.servers": self.bootstrap,
            "client.id": writer,
            "interceptor.classes": "tidegauge.NotingInterceptor",
            "tidegauge.url": self.urls,
            "tidegauge.topics": self.topic,
            "tidegauge.every.ms": "100",
            **named,
        }

    @contextmanager
    def running(
        self, main: str, *words: str, edits: Sequence[Edit] = (), jars: Path | None = None
    ) -> Iterator[Program]:
        """Run a program in Java with the interceptor; killed in the end, if it still runs."""
        places = f"{compiled(*edits)}:{jars or producer_jars()}/*"
        command = ["java", *JVM, _LOGGING, "-cp", places, main, *words]
        with (
            NamedTemporaryFile("w") as log,
            subprocess.Popen(
                command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            ) as process,
        ):
            try:
                yield Program(process, Path(log.name))
            finally:
                process.kill()

    @contextmanager
    def driving(
        self,
        writer: str,
        *,
        edits: Sequence[Edit] = (),
        jars: Path | None = None,
        **more: Any,
    ) -> Iterator[Program]:
        """Run the driver with a producer of these settings."""
        with NamedTemporaryFile("w", suffix=".properties") as file:
            file.writelines(
                f"{name}={value}\n" for name, value in self.settings(writer, **more).items()
            )
            file.flush()
            with self.running(
                "Drive", file.name, self.topic, edits=edits, jars=jars
            ) as program:
                assert program.answer() == ["made"]
                yield program

    def perform(self, writer: str, count: int) -> AbstractContextManager[Program]:
        """Run ``ProducerPerformance``, which Kafka's users know as kafka-producer-perf-test.sh."""
        words = ("--topic", self.topic, "--num-records", str(count), "--record-size", "100")
        settings = [f"{name}={value}" for name, value in self.settings(writer).items()]
        rates = ("--throughput", "5000", "--producer-props", *settings)
        return self.running("org.apache.kafka.tools.ProducerPerformance", *words, *rates)

    def late(self) -> list[Late]:
        """List records that a mark promised would not come: beyond its cut, and older than it."""
        least = {number: _least_behind(times) for number, times in self.records().items()}
        found = []
        for mark in self.all_marks():
            for number, behind in least.items():
                cut = mark["cut"].get(str(number), 0)
                if cut < len(behind) and behind[cut][0] < mark["lower"]:
                    found.append(Late(number, behind[cut][1], behind[cut][0], mark["lower"]))
        return found

    def all_marks(self) -> list[dict[str, Any]]:
        """Read all marks."""
        marks: list[dict[str, Any]] = []
        while page := self.get("marks", after=marks[-1]["revision"] if marks else 0)["marks"]:
            marks += page
        return marks

    def records(self) -> dict[int, list[int | None]]:
        """Read the timestamp of each record by its partition and offset; None where readers see none."""
        ends = Topic(self.kafka, self.topic).high_watermarks()
        found: dict[int, list[int | None]] = {
            number: [None] * end for number, end in ends.items()
        }
        reading = {
            "group.id": "judge",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
        consumer = Consumer(quiet(self.kafka) | reading)
        consumer.assign([TopicPartition(self.topic, number, 0) for number in ends])
        left = set(ends)
        while left:
            record = consumer.poll(PATIENCE_S)
            assert record is not None, "the topic was not read to its end"
            number, offset = record.partition(), record.offset()
            assert number is not None
            assert offset is not None
            if record.error():
                left.discard(number)
            elif offset < ends[number]:
                found[number][offset] = record.timestamp()[1]
        consumer.close()
        return found


def _least_behind(times: Sequence[int | None]) -> list[tuple[int, int]]:
    """Find for each offset the least timestamp from there on, and its offset."""
    least, found = (2**63 - 1, -1), []
    for offset in range(len(times) - 1, -1, -1):
        time = times[offset]
        if time is not None:
            least = min(least, (time, offset))
        found.append(least)
    return found[::-1]
