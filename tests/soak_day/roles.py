"""The clients of a day, each a process that tells what it does in lines of JSON, until it is killed.

They say what they are about to write before they write it: a pipe outlives whoever wrote to it.
"""

import asyncio
import json
import random
import sys
import time
from collections.abc import Iterator
from datetime import timedelta

from confluent_kafka import Producer

from reader_client import AsyncReader
from writer_client import AsyncWriter
from writer_client.kafka import NotingProducer

KEYS = 4
"""Of each writer, which writes an event of each in a round; its value is the number of the round."""
PATIENCE = timedelta(minutes=5)
_MOST_ROUNDS = 8
"""Between two flushes."""


class Rounds:
    """The rounds that a writer writes, between two flushes each, and what it tells of them."""

    def __init__(self, first: str, time_ms: str, every_s: str) -> None:
        self.time = max(int(time_ms), wall_ms())
        self.every_s = float(every_s)
        self._numbers = range(int(first))

    def __iter__(self) -> Iterator[range]:
        while True:
            first = self._numbers.stop
            self._numbers = range(first, first + random.randint(1, _MOST_ROUNDS))
            tell("tries", self._numbers.stop, self.time)
            yield self._numbers

    def next_time(self) -> int:
        """Return the time of the next round: the clock's, and never below the last."""
        self.time = max(self.time, wall_ms())
        return self.time

    def stored(self, began: float) -> None:
        """Tell that the rounds are stored, and how long a flush took."""
        took_ms = (time.perf_counter() - began) * 1_000
        tell("stored", self._numbers.start, self._numbers.stop, took_ms)


async def write(url: str, stream: str, name: str, *begin: str) -> None:
    """Write to the embedded log."""
    rounds = Rounds(*begin)
    options = {"first_time": rounds.time, "retry_for": PATIENCE}
    async with AsyncWriter(url, stream, name, **options) as writer:  # type: ignore[arg-type]
        for numbers in rounds:
            for number in numbers:
                await asyncio.sleep(rounds.every_s)
                at = rounds.next_time()
                for key in range(KEYS):
                    await writer.write(str(number), key=f"{name}.{key}", event_time=at)
                writer.note_time(at)
            began = time.perf_counter()
            await writer.flush()
            rounds.stored(began)


def produce(url: str, stream: str, name: str, brokers: str, *begin: str) -> None:
    """Write to a topic."""
    rounds = Rounds(*begin)
    topic = stream.partition("/")[2]
    settings = {"bootstrap.servers": brokers, "enable.idempotence": True}
    noting = NotingProducer(
        Producer(settings), url, stream, name, settings=settings, first_time=rounds.time
    )
    with noting:
        for numbers in rounds:
            for number in numbers:
                time.sleep(rounds.every_s)
                at = rounds.next_time()
                for key in range(KEYS):
                    noting.produce(topic, str(number), f"{name}.{key}", timestamp=at)
                noting.note_time(at)
            began = time.perf_counter()
            if noting.flush() == 0:
                rounds.stored(began)


async def read(url: str, group: str, name: str) -> None:
    """Read as one of a group, and tell of each page when it was returned, by the clock of all."""
    async with AsyncReader(url, group, name, retry_for=PATIENCE) as reader:
        while True:
            if events := await reader.read_next():
                at, times = time.monotonic(), [one.event_time or 0 for one in events]
                delay_ms = wall_ms() - times[-1]
                tell("returned", at, events[0].segment, events[0].offset, times, delay_ms)


def tell(*said: object) -> None:
    """Write a line, at once."""
    print(json.dumps(said), flush=True)  # noqa: T201


def wall_ms() -> int:
    """Read the clock."""
    return time.time_ns() // 1_000_000


def main(role: str, *words: str) -> None:
    """Do what a role does."""
    if role == "producer":
        produce(*words)
    else:
        asyncio.run(write(*words) if role == "writer" else read(*words))


if __name__ == "__main__":
    main(*sys.argv[1:])
