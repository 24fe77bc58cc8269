"""Producing to Kafka with and without noting time, in turns against one broker.

A producer hears of its deliveries, or loses records without noticing; so the baseline is one with a callback
that keeps what failed. One without any callback is shown beside it.
"""

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
from tidegauge_cli.demo.kafka.broker import Broker
from writer_client.kafka import NotingProducer

_RECORDS, _ROUNDS = 300_000, 3
_POLL_EVERY, _NOTE_EVERY = 1_000, 10_000
_VALUE = b"x" * 100
_TOPIC = "records"
_PARTITIONS = 4


def measure() -> Iterator[tuple[str, str, str]]:
    """Produce records of 100 bytes to 4 partitions; with notes, one for every 10 000 records."""
    with (
        tempfile.TemporaryDirectory() as name,
        Broker(Path(name) / "broker") as broker,
        servers.service(Path(name)) as url,
    ):
        settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": broker.bootstrap,
            "linger.ms": 5,
        }
        wanted = [NewTopic(_TOPIC, _PARTITIONS, 1)]
        AdminClient(settings).create_topics(wanted)[_TOPIC].result(30)
        with StreamClient(url, f"bench/{_TOPIC}") as client:
            client.create(log="external", segments=_PARTITIONS)
        failed: list[object] = []

        def hear(error: object, record: object) -> None:
            if error is not None:
                failed.append(record)

        def noting() -> float:
            around = NotingProducer(Producer(settings), url, f"bench/{_TOPIC}", "api-1")
            with around:
                return _produce(around, note=around.note_time)

        ways: dict[str, Callable[[], float]] = {
            "silent": lambda: _produce(Producer(settings)),
            "heard": lambda: _produce(Producer(settings), on_delivery=hear),
            "noting": noting,
        }
        rates: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(_ROUNDS):
            for way, run in ways.items():
                rates[way].append(run())
        silent, heard, noted = (median(rates[way]) for way in ways)
        yield "producer without a callback", _shown(silent), ""
        yield "producer that hears of its deliveries", _shown(heard), "the baseline"
        yield "NotingProducer", _shown(noted), f"{noted / heard:.2f} of it (≥ 0.8)"


def _produce(
    producer: Any,  # noqa: ANN401 (with notes or without)
    note: Callable[[int], None] | None = None,
    **more: Any,  # noqa: ANN401 (of Kafka's client)
) -> float:
    started = time.perf_counter()
    for number in range(_RECORDS):
        while True:
            try:
                producer.produce(_TOPIC, _VALUE, key=b"%d" % (number % 1_000), **more)
                break
            except BufferError:
                producer.poll(0.1)
        if number % _POLL_EVERY == 0:
            producer.poll(0)
        if note is not None and number % _NOTE_EVERY == 0:
            note(1_700_000_000_000 + number)
    producer.flush(60)
    return _RECORDS / (time.perf_counter() - started)


def _shown(rate: float) -> str:
    return f"{rate:,.0f} records/s"
