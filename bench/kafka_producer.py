"""Producing to Kafka with and without noting time, in turns, per processor second.

A producer hears of its deliveries, or loses records without noticing; so the baseline is one with a callback
that keeps what failed. Both run in this process, whose time counts: that of the broker and the service does not.
"""

import gc
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench import servers
from reader_client import StreamClient
from tests.broker import Broker
from writer_client.kafka import NotingProducer

_RECORDS = int(os.environ.get("BENCH_RECORDS", "300000"))
_ROUNDS = int(os.environ.get("BENCH_ROUNDS", "7"))
_POLL_EVERY, _NOTE_EVERY = 1_000, 10_000
_VALUE = b"x" * 100
_TOPIC = "records"
_PARTITIONS = 4
_FIRST_TIME = 1_700_000_000_000
_CASES = {
    "without timestamps": (None, 0.75),
    "timestamps that all differ": (1, 0.6),
    "50 records a millisecond": (50, 0.68),
}
"""How many records have the same timestamp, and the goal."""


def measure() -> Iterator[tuple[str, str, str]]:
    """Produce records of 100 bytes to 4 partitions; with notes, one for every 10 000 records.

    A short form: ``BENCH_RECORDS=50000 BENCH_ROUNDS=3``.
    """
    with (
        tempfile.TemporaryDirectory() as name,
        Broker(Path(name) / "broker") as broker,
        servers.service(Path(name)) as url,
    ):
        settings: dict[str, Any] = {"bootstrap.servers": broker.bootstrap, "linger.ms": 5}
        # Timestamps are years old.
        wanted = [NewTopic(_TOPIC, _PARTITIONS, 1, config={"retention.ms": "-1"})]
        admin = AdminClient(settings)
        admin.create_topics(wanted)[_TOPIC].result(30)
        with StreamClient(url, f"bench/{_TOPIC}") as client:
            client.create(log="external", segments=_PARTITIONS)
        failed: list[object] = []

        def hear(error: object, record: object) -> None:
            if error is not None:
                failed.append(record)

        def heard(alike: int | None) -> float:
            return _cost(Producer(settings), alike, on_delivery=hear)

        def noting(alike: int | None) -> float:
            around = NotingProducer(Producer(settings), url, f"bench/{_TOPIC}", "api-1")
            with around:
                return _cost(around, alike, note=around.note_time)

        # A producer's process has not loaded what all these parts have, which each collection would look at.
        gc.freeze()
        noting(None)  # the first round pays for connections
        for case, (alike, goal) in _CASES.items():
            rounds = [(heard(alike), noting(alike)) for _ in range(_ROUNDS)]
            baseline, ours = (median(column) for column in zip(*rounds, strict=True))
            ratio = median(one / other for one, other in rounds)
            yield f"a producer that hears of its deliveries, {case}", _shown(baseline), ""
            yield f"NotingProducer, {case}", _shown(ours), f"{ratio:.2f} of it (≥ {goal})"
        gc.unfreeze()


def _cost(
    producer: Any,  # noqa: ANN401 (with notes or without)
    alike: int | None,
    note: Callable[[int], None] | None = None,
    **more: Any,  # noqa: ANN401 (of Kafka's client)
) -> float:
    """Produce, and return what a record costs, in seconds of this process."""
    began = time.process_time()
    for number in range(_RECORDS):
        if alike is not None:
            more["timestamp"] = _FIRST_TIME + number // alike
        while True:
            try:
                producer.produce(_TOPIC, _VALUE, key=b"%d" % (number % 1_000), **more)
                break
            except BufferError:
                producer.poll(0.1)
        if number % _POLL_EVERY == 0:
            producer.poll(0)
        if note is not None and number % _NOTE_EVERY == 0:
            note(_FIRST_TIME + number)
    producer.flush(60)
    return (time.process_time() - began) / _RECORDS


def _shown(cost: float) -> str:
    return f"{cost * 1e6:.2f} µs of processor a record"
