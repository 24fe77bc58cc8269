"""Producing to Kafka with and without noting time, in turns, per processor second.

A producer needs delivery reports, or loses records without noticing. So the baseline is one with a callback
that keeps what failed. Both run in this process, whose time counts: that of the broker and the service does not.
"""

import gc
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from confluent_kafka import Producer

from bench.harness import Row, in_turn, service, sized
from reader_client import StreamClient
from tests.broker import Broker
from tests.kafka import create_topic
from writer_client.kafka import NotingProducer

_RECORDS = sized(300_000)
_ROUNDS = 7
_POLL_EVERY, _NOTE_EVERY = 1_000, 10_000
_VALUE = b"x" * 100
_TOPIC = "records"
_STREAM = f"bench/{_TOPIC}"
_PARTITIONS = 4
_FIRST_TIME = 1_700_000_000_000
_CASES = {
    "without timestamps": (None, 0.75),
    "timestamps that all differ": (1, 0.6),
    "50 records a millisecond": (50, 0.68),
}
"""How many records have the same timestamp, and the goal."""


def measure() -> Iterator[Row]:
    """Produce records of 100 bytes to 4 partitions; with notes, one for every 10 000 records."""
    with service() as (url, folder), Broker(folder / "broker") as broker:
        settings: dict[str, Any] = {"bootstrap.servers": broker.bootstrap, "linger.ms": 5}
        # Timestamps are years old.
        create_topic(broker.bootstrap, _TOPIC, partitions=_PARTITIONS, retention_ms=-1)
        with StreamClient(url, _STREAM) as client:
            client.create(log="external", segments=_PARTITIONS)
        failed: list[object] = []

        def report(error: object, record: object) -> None:
            if error is not None:
                failed.append(record)

        def plain(alike: int | None) -> float:
            return _cost(Producer(settings), alike, on_delivery=report)

        def noting(alike: int | None) -> float:
            with NotingProducer(Producer(settings), url, _STREAM, "api-1") as producer:
                return _cost(producer, alike, note=producer.note_time)

        # A producer's process has not loaded what all these parts have, which each collection would look at.
        gc.freeze()
        noting(None)  # pays for connections
        for case, (alike, goal) in _CASES.items():
            ways = {"plain": partial(plain, alike), "noting": partial(noting, alike)}
            costs = in_turn(ways, rounds=_ROUNDS)
            yield f"a producer with delivery reports, {case}", _us(costs.median("plain")), ""
            ratio = f"{costs.ratio('plain', 'noting'):.2f} of it (≥ {goal})"
            yield f"NotingProducer, {case}", _us(costs.median("noting")), ratio
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
            # Not above the records that follow: late ones are counted, which costs more.
            note(_FIRST_TIME + number // (alike or 1))
    producer.flush(60)
    return (time.process_time() - began) / _RECORDS


def _us(cost: float) -> str:
    return f"{cost * 1e6:.2f} µs of processor a record"
