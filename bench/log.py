"""The embedded log: writing and reading through the clients, each beside a bare loop over SQLite.

A bare loop is one process and no service: it stores the same chunks, each in a transaction that is
durable when it ends, or reads them, and makes the same events of them.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from multiprocessing import get_context
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pyarrow as pa

from bench.harness import Row, service, sized
from controller.log.codec import decode, encode_chunks
from reader_client import Event, Reader, ReaderGroup, StreamClient
from tidegauge.wire.columns import EVENT_SCHEMA
from writer_client import Writer

_CALLS, _CALL_EVENTS = sized(50), 20_000  # a million events, by so many at a write_many
_EVENTS = _CALLS * _CALL_EVENTS
_READERS, _READ_EVENTS = 4, 10_000
_STREAM, _GROUP = "bench/log", "bench/readers"
_BARE = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
CREATE TABLE chunks (number INTEGER PRIMARY KEY, data BLOB NOT NULL);
"""


def measure() -> Iterator[Row]:
    """Write events of 100 random bytes and a thousand keys each way, and read them."""
    values = [os.urandom(100) for _ in range(_CALL_EVENTS)]
    keys = [str(number % 1_000) for number in range(_CALL_EVENTS)]
    times = list(range(_CALL_EVENTS))
    events = pa.record_batch([keys, times, values], schema=EVENT_SCHEMA)

    def write(writer: Writer) -> None:
        for key, event_time, value in zip(keys, times, values, strict=True):
            writer.write(value, key=key, event_time=event_time)

    def write_lists(writer: Writer) -> None:
        writer.write_many(values, keys=keys, event_times=times)

    def write_arrow(writer: Writer) -> None:
        writer.write_many(events)

    with service() as (url, folder):
        bare = _bare_write(folder / "bare.db", events)
        yield "bare loop that stores chunks of 20 000 events", _rate(bare), "the baseline"
        for what, once, goal in (
            ("Writer.write", write, "250 000 rows/s"),
            ("write_many of lists", write_lists, "0.5"),
            ("write_many of an Arrow table", write_arrow, "0.5"),
        ):
            written = _write(url, f"{_STREAM}-{once.__name__}", once)
            yield what, _rate(written), f"{bare / written:.2f} of it (≥ {goal})"
        bare, read = _bare_read(folder / "bare.db"), _read(url, f"{_STREAM}-write_arrow")
        yield "bare loop that reads events", _rate(bare), "the baseline"
        what = f"read_next in a group of {_READERS} processes"
        yield what, _rate(read), f"{bare / read:.2f} of it (≥ 0.5)"
        read = _read_columns(url, f"{_STREAM}-write_arrow")
        yield "StreamClient.read, in columns", _rate(read), f"{bare / read:.2f} of it"


def _rate(seconds: float) -> str:
    return f"{_EVENTS / seconds:,.0f} rows/s"


def _bare_write(file: Path, events: pa.RecordBatch) -> float:
    with closing(sqlite3.connect(file)) as database:
        database.executescript(_BARE)
        started = time.perf_counter()
        for _ in range(_CALLS):
            chunks = encode_chunks(events, writer="bench", append_time=0)
            rows = [(chunk.message,) for chunk in chunks]
            database.executemany("INSERT INTO chunks (data) VALUES (?)", rows)
            database.commit()
        return time.perf_counter() - started


def _write(url: str, stream: str, once: Callable[[Writer], None]) -> float:
    with StreamClient(url, stream) as client:
        client.create(segments=_READERS)
    started = time.perf_counter()
    with Writer(url, stream, "bench") as writer:
        for _ in range(_CALLS):
            once(writer)
    return time.perf_counter() - started


def _bare_read(file: Path) -> float:
    count, started = 0, time.perf_counter()
    with closing(sqlite3.connect(file)) as database:
        for (message,) in database.execute("SELECT data FROM chunks ORDER BY number"):
            columns = (column.to_pylist() for column in decode(message).columns)
            rows = zip(*columns, strict=True)
            count += len([Event("", 0, at, *row) for at, row in enumerate(rows)])
    return _since(started, count)


def _read(url: str, stream: str) -> float:
    """Let processes read together, from when all have joined to when everything is read."""
    with ReaderGroup(url, _GROUP) as group:
        group.create([stream])
    context = get_context("spawn")
    count, joined = context.Value("q", 0), context.Barrier(_READERS + 1)
    readers = [
        context.Process(target=_read_on, args=(url, number, count, joined))
        for number in range(_READERS)
    ]
    for reader in readers:
        reader.start()
    joined.wait()
    started = time.perf_counter()
    for reader in readers:
        reader.join()
    return _since(started, count.value)


def _read_on(url: str, number: int, count: "Synchronized[int]", joined: Barrier) -> None:
    with Reader(url, _GROUP, f"reader-{number}") as reader:
        reader.open()
        joined.wait()
        while count.value < _EVENTS:
            events = reader.read_next(limit=_READ_EVENTS, wait_ms=100)
            with count.get_lock():
                count.value += len(events)


def _read_columns(url: str, stream: str) -> float:
    started = time.perf_counter()
    with StreamClient(url, stream) as client:
        count = sum(
            events.batch.num_rows
            for segment, end in client.tail().tail.items()
            for events in client.read(segment, 0, end)
        )
    return _since(started, count)


def _since(started: float, count: int) -> float:
    if count != _EVENTS:
        msg = f"read {count} of {_EVENTS} events"
        raise RuntimeError(msg)
    return time.perf_counter() - started
