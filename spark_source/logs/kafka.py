"""The log port over a topic, as it is planned from: partitions are roots."""

import time
from datetime import timedelta

import reader_client
from spark_source.options.kafka import KafkaTopic
from tidegauge.client.kafka import Topic
from tidegauge.client.outage import RETRY_FOR
from tidegauge.log import Extent
from tidegauge.topology import Position, Topology

_WAIT_MS = 150
"""How long the service is waited for before Kafka, which has no long poll, is asked again."""


class KafkaLog:
    """Asks the service for marks and the broker for ends; see `Log`.

    Parameters
    ----------
    client
        Of the stream.
    topic
        Where its events are.
    retry_for
        How long a broker that does not answer is asked again.
    """

    def __init__(
        self,
        client: "reader_client.StreamClient",
        topic: KafkaTopic,
        *,
        retry_for: timedelta = RETRY_FOR,
    ) -> None:
        self._client = client
        self._topic = Topic(dict(topic.settings), topic.name, retry_for=retry_for)

    def extent(self, beyond: Extent | None = None, *, wait_ms: int = 0) -> Extent:
        """Return how far the topic is readable: up to the last stable offset of each partition."""
        if beyond is None:
            return self._with_ends(self._noted())
        give_up = time.monotonic() + wait_ms / 1_000
        while True:
            marks = self._client.marks(after=beyond.revision, limit=1, wait_ms=_WAIT_MS)
            found = self._with_ends(self._noted() if marks else beyond)
            if found != beyond or time.monotonic() >= give_up:
                return found

    def starts(self) -> Position:
        """Find where retention has left off."""
        return self._topic.starts()

    def start_of(self, time: int) -> Position:
        """Find per partition the first record whose timestamp is at or above a time."""
        return self._topic.starts_at(time)

    def _noted(self) -> Extent:
        """Return what the service knows of the stream."""
        info = self._client.describe()
        return Extent(info.topology.to_topology(), {}, info.revision, info.watermark)

    def _with_ends(self, noted: Extent) -> Extent:
        """Look at the ends, after the marks: what a mark covers was acknowledged before it."""
        info = self._topic.describe()
        ends = self._topic.ends(info.partitions)
        topology = _with_partitions(noted.topology, ends)
        return Extent(topology, ends, noted.revision, noted.watermark, info.topic_id)


def _with_partitions(topology: Topology, partitions: Position) -> Topology:
    """Add the partitions that no report has named yet."""
    unknown = [number for number in sorted(partitions) if number not in topology]
    return topology.with_roots(unknown) if unknown else topology
