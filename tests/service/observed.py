"""A topic whose producers nobody can change, and the verb that estimates time for them."""

import json
import subprocess
from contextlib import AbstractContextManager
from typing import Any
from uuid import uuid4

from tests.broker import Broker
from tests.kafka import create_topic, produce
from tests.patience import PATIENCE_S
from tests.server import ServerProcess
from tests.service.api import Api
from tests.service.operator import Operator

SOON = ("--kafka", "session.timeout.ms=6000")
"""As soon as brokers let a dead consumer go."""


class Observed(Api):
    """A topic with a stream of its own name, and the verb."""

    def __init__(self, server: ServerProcess, broker: Broker, partitions: int) -> None:
        super().__init__(server.url, f"shop/topic-{uuid4().hex}")
        self.bootstrap = broker.bootstrap
        self.operator = Operator(server.url)
        # Noon was long ago.
        create_topic(broker.bootstrap, self.topic, partitions=partitions, retention_ms=-1)
        self.create(segments=partitions)

    def words(self, *words: str) -> tuple[str, ...]:
        stream = ("observe", "kafka", self.name, "--bootstrap", self.bootstrap, "--json")
        return (*stream, *words)

    def produce(self, *records: dict[str, Any]) -> None:
        produce(self.bootstrap, self.topic, records)

    def observing(self, *words: str) -> AbstractContextManager["subprocess.Popen[str]"]:
        return self.operator.start(*self.words(*words))

    def run(self, *words: str, status: int = 0) -> tuple[Any, str]:
        """Run to the end; give its last progress, and what it warned of."""
        with self.observing(*words) as process:
            said, warned = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == status, warned
        return (json.loads(said.splitlines()[-1]) if said else None), warned

    def noted(self) -> dict[str, Any]:
        """All writers, by their names."""
        return {one["writer"]: one for one in self.writers()}

    def times(self) -> dict[str, int | None]:
        return {name: one["time"] for name, one in self.noted().items()}


def record(partition: int, timestamp: int, **more: Any) -> dict[str, Any]:
    return {"partition": partition, "timestamp": timestamp, "value": b"v", **more}
