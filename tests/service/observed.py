"""A topic whose producers nobody can change, and the verb that estimates time for them."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from tests.broker import Broker
from tests.kafka import create_topic, produce
from tests.patience import PATIENCE_S
from tests.server import ServerProcess
from tests.service.api import Api
from tests.service.operator import Operator
from tidegauge.client.blocks import Closing

NOON = 1_704_110_400_000
SOON = ("--kafka", "session.timeout.ms=6000")
"""As soon as brokers let a dead consumer go."""


class Observed(Closing):
    """A topic with a stream of its own name, and the verb."""

    def __init__(self, server: ServerProcess, broker: Broker, partitions: int) -> None:
        self.name = f"topic-{uuid4().hex}"
        self.bootstrap = broker.bootstrap
        self.operator = Operator(server.url)
        self.api = Api(server.url, f"shop/{self.name}")
        # Noon was long ago.
        create_topic(broker.bootstrap, self.name, partitions=partitions, retention_ms=-1)
        self.api.create(segments=partitions)

    def close(self) -> None:
        self.api.client.close()

    def words(self, *words: str) -> tuple[str, ...]:
        stream = ("observe", "kafka", self.api.name, "--bootstrap", self.bootstrap, "--json")
        return (*stream, *words)

    def produce(self, *records: dict[str, Any]) -> None:
        produce(self.bootstrap, self.name, records)

    @contextmanager
    def observing(self, *words: str) -> Iterator["subprocess.Popen[str]"]:
        with self.operator.start(*self.words(*words)) as process:
            yield process

    def run(self, *words: str, status: int = 0) -> tuple[Any, str]:
        """Run to the end; give its last progress, and what it warned of."""
        with self.observing(*words) as process:
            said, warned = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == status, warned
        return (json.loads(said.splitlines()[-1]) if said else None), warned

    def writers(self) -> dict[str, Any]:
        return {one["writer"]: one for one in self.api.get("writers")["writers"]}

    def states(self) -> dict[str, str]:
        return {name: one["state"] for name, one in self.writers().items()}

    def times(self) -> dict[str, int | None]:
        return {name: one["time"] for name, one in self.writers().items()}

    @property
    def watermark(self) -> int | None:
        found: int | None = self.api.get("watermark")["watermark"]
        return found


def record(partition: int, timestamp: int, **more: Any) -> dict[str, Any]:
    return {"partition": partition, "timestamp": timestamp, "value": b"v", **more}
