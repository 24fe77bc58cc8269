"""Producing to Kafka with and without noting time, in turns, per processor second.

A producer needs delivery reports, or loses records without noticing. So the baseline is one with a callback
that keeps what failed. Both run in this process, whose time counts: that of the broker and the service does not.
So it is with the interceptor, in processes of Kafka's own load generator, as fast as they can.
"""

import gc
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from confluent_kafka import Producer

from bench.harness import Rounds, Row, in_turn, service, sized
from reader_client import StreamClient
from tests.broker import Broker
from tests.interceptor import compiled
from tests.kafka import create_topic
from tests.kafka_jars import producer_jars
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
_PERFORMED = sized(2_000_000)
_INTERCEPTOR_GOAL = 0.8


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
        yield from _intercepted(url, broker)


def _intercepted(url: str, broker: Broker) -> Iterator[Row]:
    """Run Kafka's load generator with and without the interceptor, in turn."""
    topic = "intercepted"
    create_topic(broker.bootstrap, topic, partitions=_PARTITIONS)
    with StreamClient(url, f"bench/{topic}") as client:
        client.create(log="external", segments=_PARTITIONS)
    plain = {"bootstrap.servers": broker.bootstrap, "client.id": "perf-1"}
    noting = plain | {
        "interceptor.classes": "tidegauge.NotingInterceptor",
        "tidegauge.url": url,
        "tidegauge.topics": topic,
        "tidegauge.scope": "bench",
    }
    spent: dict[str, list[float]] = {"plain": [], "noting": []}

    def perform(way: str, settings: dict[str, str]) -> float:
        rate, processor_s = _performed(topic, settings)
        spent[way].append(processor_s)
        return rate

    ways = {
        "plain": partial(perform, "plain", plain),
        "noting": partial(perform, "noting", noting),
    }
    rates = in_turn(ways, rounds=_ROUNDS, warm_up=1)
    costs = Rounds(
        [{way: spent[way][turn] for way in ways} for turn in range(1, len(spent["plain"]))]
    )
    each = f"{rates.median('plain'):,.0f} records/s, {_us(costs.median('plain'))}"
    yield "ProducerPerformance, 100 bytes, unlimited", each, ""
    each = f"{rates.median('noting'):,.0f} records/s, {_us(costs.median('noting'))}"
    ratios = (
        f"{rates.ratio('noting', 'plain'):.2f} and {costs.ratio('plain', 'noting'):.2f} of it"
    )
    yield "with NotingInterceptor", each, f"{ratios} (≥ {_INTERCEPTOR_GOAL} both)"


def _performed(topic: str, settings: dict[str, str]) -> tuple[float, float]:
    """Let the load generator run; return its records a second, and what a record costs in seconds."""
    program = "org.apache.kafka.tools.ProducerPerformance"
    words = ["--topic", topic, "--num-records", str(_PERFORMED), "--record-size", "100"]
    words += ["--throughput", "-1", "--producer-props"]
    words += [f"{name}={value}" for name, value in settings.items()]
    places = f"{compiled()}:{producer_jars()}/*"
    command = ["java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", places, program]
    before = os.times()
    done = subprocess.run([*command, *words], capture_output=True, text=True, check=True)
    after = os.times()
    processor_s = after.children_user - before.children_user
    processor_s += after.children_system - before.children_system
    *_, last = re.findall(r"records sent, ([\d.]+) records/sec", done.stdout)
    return float(last), processor_s / _PERFORMED


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
