"""Transactions of writers: what they write is seen all at once, or never."""

import asyncio
import threading
from collections.abc import Hashable
from datetime import datetime, timedelta
from typing import Self

import pyarrow as pa

from tidegauge.client.sync import LoopThread
from tidegauge.client.transport import is_transient
from tidegauge.errors import (
    InvalidTimeError,
    TidegaugeError,
    TransactionFinishedError,
)
from tidegauge.event_time import to_event_time
from writer_client._clocked import observed
from writer_client._columns import EventTimes, Keys, Values, in_parts, to_events
from writer_client._core import WriterCore
from writer_client._events import (
    OVERHEAD_BYTES,
    Unrouted,
    check_key,
    check_time,
    check_value,
    encode_events,
    with_times,
)
from writer_client._lanes import Lane
from writer_client.strategies import ObservedEvent

LEASE = timedelta(seconds=60)
"""How long the service waits by default for a process that is gone."""
_SHORTEST, _LONGEST = timedelta(seconds=1), timedelta(days=1)
_PINGS_IN_TIME = 3  # one may be lost, and one late
_BATCH_BYTES = 1_048_576
_REQUEST_BYTES = 4 * _BATCH_BYTES


class TransactionCore:
    """One transaction, on the event loop of its writer; what is written may come from any thread.

    Everything is staged in one order, as of one segment: it is routed at the commit.
    """

    def __init__(self, writer: WriterCore, timeout: timedelta) -> None:
        self._writer = writer
        if not _SHORTEST <= timeout <= _LONGEST:
            msg = f"timeout is {timeout}; it is a second at least, and a day at most"
            raise ValueError(msg)
        self._timeout_ms = timeout // timedelta(milliseconds=1)
        self._lock = threading.Lock()
        self._sending = asyncio.Lock()
        self._events = Unrouted()
        self._size = 0
        self._written: list[ObservedEvent] = []
        """What the strategy, if there is one, is shown at the commit: never what is aborted."""
        self._sequence = 0
        self._segment = 0
        self._noted_time: int | None = None
        self._pings: asyncio.Task[None] | None = None
        self._is_over = False
        self._failure: BaseException | None = None
        self._is_asked = False
        """Whether the commit was sent."""
        self.id = ""
        self.position: dict[int, int] = {}

    async def begin(self) -> None:
        """Begin it, and keep its lease from now on."""
        writer = self._writer
        await writer.open()
        writer.outbox.enter_transaction()
        try:
            begun = await writer.calls.begin(self._timeout_ms)
        except BaseException:
            writer.outbox.leave_transaction()
            raise
        self.id, self._segment = begun.id, writer.outbox.topology.unsealed[0]
        self._pings = asyncio.get_running_loop().create_task(self._ping_on())

    def add(
        self, key: str, event_time: int | None, value: bytes, source: Hashable = None
    ) -> bool:
        """Add an event; return whether there are enough to be sent."""
        self._refuse_if_over()
        time = self._writer.outbox.own_time() if event_time is None else event_time
        with self._lock:
            if self._writer.member.strategy is not None:
                self._written.append(ObservedEvent(time, key, value, source))
            self._events.add(key, time, value)
            self._size += len(key) + len(value) + OVERHEAD_BYTES
            return self._size >= _BATCH_BYTES

    async def add_many(self, events: pa.Table, source: Hashable = None) -> None:
        """Add events, and stage them and what was added before."""
        self._refuse_if_over()
        for part in in_parts(events, _BATCH_BYTES):
            timed = with_times(part, self._writer.outbox.own_time())
            with self._lock:
                if self._writer.member.strategy is not None:
                    self._written.extend(observed(timed, source))
                self._events.add_many(timed)
            await self.send()

    def note_time(self, time: int) -> None:
        """Choose the time that the commit notes."""
        self._refuse_if_over()
        with self._lock:
            last = self._writer.outbox.last[0] if self._noted_time is None else self._noted_time
            if last is not None and time < last:
                raise InvalidTimeError(self._writer.calls.name, time, last)
            self._noted_time = time

    async def send(self) -> None:
        """Stage what was written; if that fails, nothing is committed, whoever catches it."""
        async with self._sending:
            self._raise_failure()
            with self._lock:
                events, self._size = self._events.take(first=0), 0
            lane = Lane(self._segment)
            for part in events.combine_chunks().to_batches():
                lane.add(part)
            try:
                # One request, unless it would be too large with an event that is large itself.
                while batch := lane.take(max_events=len(events), max_bytes=_REQUEST_BYTES):
                    self._sequence += 1
                    body = encode_events(batch.events)
                    await self._writer.calls.stage(self.id, self._segment, body, self._sequence)
            except BaseException as error:
                self._failure = error
                raise

    async def end(self, raised: BaseException | None) -> None:
        """Commit, or abort behind what was raised."""
        self._is_over = True
        try:
            if raised is None:
                await self._commit()
            else:
                await self._abort(raised)
        finally:
            if self._pings is not None:
                self._pings.cancel()
                await asyncio.gather(self._pings, return_exceptions=True)
            self._writer.outbox.leave_transaction()

    async def _commit(self) -> None:
        """Commit, once what was written outside is stored.

        Else events of one key could overtake each other, and what is on its way would lie behind
        the time that the commit notes. That is chosen first, so that what is written outside
        meanwhile is not older. A commit whose answer is lost is repeated.
        """
        outbox = self._writer.outbox
        try:
            await self.send()
            time = self._noted_time
            if time is None:
                if self._written:  # if the service has ended it, nothing may move the strategy
                    await self._writer.calls.ping(self.id)
                time = outbox.commit_time(self._written)
            await self._writer.flush()
            self._is_asked = True
            ended = await self._writer.calls.commit(self.id, time)
        except BaseException as error:
            if not (self._is_asked and is_transient(error)):  # else it may be committed
                await self._abort(error)
            raise
        self.position = ended.position or {}
        if any(one not in outbox.topology for one in self.position):
            outbox.follow((await self._writer.calls.describe()).topology.to_topology())
        if self._noted_time is not None:
            outbox.commit_time(self._written)
        outbox.commit(self.position, time)

    async def _abort(self, raised: BaseException) -> None:
        """Abort; if that fails, what was raised says so, and the lease ends it."""
        try:
            await self._writer.calls.abort(self.id)
        except TransactionFinishedError:
            return
        except TidegaugeError as error:
            raised.add_note(f"transaction {self.id} ends with its lease: {error}")

    async def _ping_on(self) -> None:
        while True:
            await asyncio.sleep(self._timeout_ms / 1_000 / _PINGS_IN_TIME)
            await self._writer.calls.ping(self.id)

    def _raise_failure(self) -> None:
        self._writer.member.noter.raise_failure()
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        if self._pings is not None and self._pings.done():
            self._pings.result()

    def _refuse_if_over(self) -> None:
        if not self.id:
            msg = (
                "this transaction has not begun; write in its block: with writer.transaction()"
            )
            raise ValueError(msg)
        if self._is_over:
            msg = "this transaction is over; begin another with transaction()"
            raise ValueError(msg)


class TransactionFace:
    """A transaction as its owner sees it; how it is called is up to each face."""

    _core: TransactionCore

    @property
    def id(self) -> str:
        """How the service calls it; empty before its block."""
        return self._core.id

    @property
    def position(self) -> dict[int, int]:
        """Next offset of each segment that the commit wrote to; empty before."""
        return self._core.position

    def note_time(self, time: int | datetime) -> None:
        """Promise, with the commit, that every event written after it is at or above a time.

        Raises
        ------
        TypeError, ValueError
            If the time is none, or the transaction is over.
        InvalidTimeError
            If it is below the time noted before.
        """
        self._core.note_time(to_event_time(time))


class AsyncTransaction(TransactionFace):
    """Events that are seen all at once, in every segment, or never; see `AsyncWriter.transaction`.

    Leaving the ``async with`` block commits; an exception in it aborts. Its lease is kept while
    the block runs. A strategy of the writer is shown the events at the commit, and its value is what
    that notes, unless `note_time` says another.

    Examples
    --------
    >>> import asyncio
    >>> from writer_client import AsyncWriter
    >>> async def main() -> None:
    ...     async with AsyncWriter("http://127.0.0.1:8470", "demo/rides", "gateway-9") as one:
    ...         async with one.transaction() as both:
    ...             await both.write("begins", key="taxi-3", event_time=1_700_000_000_000)
    ...             await both.write("pays", key="rider-8", event_time=1_700_000_000_000)
    ...             both.note_time(1_700_000_000_000)
    ...         print(sum(both.position.values()))
    >>> asyncio.run(main())
    2
    """

    def __init__(self, writer: WriterCore, timeout: timedelta) -> None:
        self._core = TransactionCore(writer, timeout)

    async def write(
        self,
        value: bytes | str,
        *,
        key: str,
        event_time: int | datetime | None = None,
        source: Hashable = None,
    ) -> None:
        """Write an event; it is sent with many others. See `AsyncWriter.write`."""
        time, payload = check_time(event_time), check_value(value, check_key(key))
        if self._core.add(key, time, payload, source):
            await self._core.send()

    async def write_many(
        self,
        values: Values | pa.Table | pa.RecordBatch,
        *,
        keys: Keys | None = None,
        event_times: EventTimes | None = None,
        source: Hashable = None,
    ) -> None:
        """Write many events at once; see `AsyncWriter.write_many`."""
        await self._core.add_many(to_events(values, keys, event_times), source)

    async def __aenter__(self) -> Self:
        await self._core.begin()
        return self

    async def __aexit__(
        self, _type: object, raised: BaseException | None, _traceback: object
    ) -> None:
        await self._core.end(raised)


class Transaction(TransactionFace):
    """The synchronous face of `AsyncTransaction`, usable from several threads.

    Examples
    --------
    >>> from writer_client import Writer
    >>> with Writer("http://127.0.0.1:8470", "demo/rides", "gateway-8") as writer:
    ...     with writer.transaction() as both:
    ...         both.write("begins", key="taxi-3", event_time=1_700_000_000_000)
    ...         both.write("pays", key="rider-8", event_time=1_700_000_000_000)
    ...         both.note_time(1_700_000_000_000)
    ...     print(sum(both.position.values()))
    2
    """

    def __init__(self, writer: WriterCore, timeout: timedelta, thread: LoopThread) -> None:
        self._core = TransactionCore(writer, timeout)
        self._thread = thread

    def write(
        self,
        value: bytes | str,
        *,
        key: str,
        event_time: int | datetime | None = None,
        source: Hashable = None,
    ) -> None:
        """Write an event, blocking while many are sent; see `AsyncTransaction.write`."""
        time, payload = check_time(event_time), check_value(value, check_key(key))
        if self._core.add(key, time, payload, source):
            self._thread.run(self._core.send())

    def write_many(
        self,
        values: Values | pa.Table | pa.RecordBatch,
        *,
        keys: Keys | None = None,
        event_times: EventTimes | None = None,
        source: Hashable = None,
    ) -> None:
        """Write many events at once, blocking while they are sent; see `AsyncWriter.write_many`."""
        self._thread.run(self._core.add_many(to_events(values, keys, event_times), source))

    def __enter__(self) -> Self:
        self._thread.run(self._core.begin())
        return self

    def __exit__(self, _type: object, raised: BaseException | None, _traceback: object) -> None:
        self._thread.run(self._core.end(raised))
