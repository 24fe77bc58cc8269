"""Writers of events to the embedded log."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self, TypeVar

import pyarrow as pa

from tidegauge.errors import ReportRefusedError
from tidegauge.event_time import to_event_time
from tidegauge.names import key_hash
from tidegauge.sync import LoopThread
from tidegauge.topology import Topology
from tidegauge.transport import RETRY_FOR, Transport
from tidegauge.wire.events import EVENT_SCHEMA
from writer_client._client import WriterCalls, encode_events
from writer_client._errors import EventsNotStoredError, WriterClosedError
from writer_client._outbox import Event, EventBatch, Outbox

_T = TypeVar("_T")
_BATCH_EVENTS = 16_384
_BATCH_BYTES = 1_048_576
_BUFFER_BYTES = 16 * 1_048_576
_LINGER = timedelta(milliseconds=5)
_NOTES_AT_ONCE = 500
_INGESTION_PERIOD_S = 0.2


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


class AsyncWriter:
    """Writes events to a stream of the embedded log and notes time, from one event loop.

    Events are batched and sent in the background; `flush` waits until they are stored. Use it
    as an asynchronous context manager, or call `open` and `close`.

    Parameters
    ----------
    url
        Of the service.
    stream
        ``scope/stream``.
    name
        Of this writer: chosen by its owner, and the same after a restart.
    token
        Bearer token, if the service wants one.
    first_time
        Nothing that will be written is older (ms or an aware datetime). Without it this
        writer holds the watermark from its registration to its first note.
    automatically_note_time
        Use ingestion time: events without a time get the wall clock, which is noted five
        times a second, also while nothing is written.
    batch_bytes
        Send a segment's events once there are so many bytes of them.
    linger
        … or once the first of them has waited so long.
    buffer_bytes
        While more than this is not stored, `write` waits.
    retry_for
        How long a request is repeated while the service is away. After that the writer stops
        with `EventsNotStoredError`.

    Notes
    -----
    Close or leave? `close` keeps the writer a member of the stream: whoever waits for it waits
    on until its successor of the same name notes a time, so that a deploy loses nothing.
    `leave` is for a writer that will not return: nobody waits for it.

    Examples
    --------
    >>> async with AsyncWriter("http://127.0.0.1:8470", "demo/rides", "gateway-7") as writer:
    ...     await writer.write("ride 1", key="taxi-3", event_time=1_700_000_000_000)
    ...     writer.note_time(1_700_000_000_000)  # doctest: +SKIP
    """

    def __init__(  # noqa: PLR0913 (options, each with a default)
        self,
        url: str,
        stream: str,
        name: str,
        *,
        token: str | None = None,
        first_time: int | datetime | None = None,
        automatically_note_time: bool = False,
        batch_bytes: int = _BATCH_BYTES,
        linger: timedelta = _LINGER,
        buffer_bytes: int = _BUFFER_BYTES,
        retry_for: timedelta = RETRY_FOR,
    ) -> None:
        self._calls = WriterCalls(
            Transport(url, token=token, retry_for=retry_for), stream, name
        )
        self._first_time = None if first_time is None else to_event_time(first_time)
        self._automatic = automatically_note_time
        self._batch_bytes = batch_bytes
        self._linger_s = linger.total_seconds()
        self._outbox = Outbox(buffer_bytes)
        self._topology = Topology([])
        self._position: dict[int, int] = {}
        self._opened = False
        self._closed = False
        self._tasks: dict[object, asyncio.Task[None]] = {}
        self._signals: dict[int, asyncio.Event] = {}
        self._urgent: dict[int, asyncio.Event] = {}
        self._notes_ready = asyncio.Event()
        self._progress = asyncio.Event()

    @property
    def name(self) -> str:
        """The writer's name."""
        return self._calls.name

    @property
    def incarnation(self) -> int | None:
        """From the registration; None before `open`."""
        return self._calls.incarnation

    @property
    def watermark(self) -> int | None:
        """The newest watermark that this writer was told, ms."""
        return self._calls.watermark

    @property
    def position(self) -> dict[int, int]:
        """How far the events of this writer are stored, former incarnations included."""
        return self._position | self._outbox.offsets

    async def open(self) -> None:
        """Register. Every other method that needs it does it too.

        Raises
        ------
        UnknownStreamError, StreamSealedError
            If there is nothing to write to.
        ServiceUnreachableError
            If the service does not answer.
        """
        if self._opened:
            return
        self._refuse_if_closed()
        info = await self._calls.describe()
        self._topology = info.topology.to_topology()
        if self._topology.unsealed and info.config.log == "external":
            msg = f"the events of {info.stream} live elsewhere; use TimeReporter"
            raise ValueError(msg)
        registered = await self._calls.register(self._first_time)
        self._position = dict(registered.position)
        self._opened = True
        self._start("reporter", self._report())
        if self._automatic:
            self._start("ingestion", self._note_ingestion_time())

    async def write(
        self,
        value: bytes | str,
        *,
        key: str,
        event_time: int | datetime | None = None,
    ) -> None:
        """Write an event; it is sent in the background.

        Parameters
        ----------
        value
            The payload; text is encoded as UTF-8.
        key
            Routes the event: events of one key keep their order.
        event_time
            In ms, or an aware datetime (floored to ms).

        Raises
        ------
        EventsNotStoredError, WriterFencedError
            What has stopped the writer before.
        """
        event = make_event(value, key, event_time)
        await self.open()
        while self._outbox.is_full:
            self._progress.clear()
            await self._progress.wait()
        self.put(event)

    def note_time(self, time: int | datetime) -> None:
        """Promise that every event written from now on is at or above a time.

        It covers exactly what was written before it and does not wait: it is sent once all of
        that is stored. A refusal is raised by the next call.

        Raises
        ------
        TypeError, ValueError
            If the time is none.
        """
        self._refuse_if_closed()
        self.put_note(to_event_time(time))

    async def flush(self) -> None:
        """Wait until everything written and noted so far is stored.

        Raises
        ------
        EventsNotStoredError, WriterFencedError, ReportRefusedError
            If it is not.
        """
        await self.open()
        self.hurry()
        while not self._outbox.is_empty:
            self._outbox.raise_failure()
            self._progress.clear()
            await self._progress.wait()
        self._outbox.raise_failure()

    async def close(self) -> None:
        """Flush, note the last time again with the final position, and stay a member."""
        if self._closed:
            return
        try:
            if self._opened:
                await self._finish()
        finally:
            await self._stop()

    async def leave(self) -> None:
        """Flush and leave the stream: this writer will not return, and nobody waits for it."""
        self._refuse_if_closed()
        try:
            await self.flush()
            await self._calls.leave(self._outbox.last_time, self._outbox.offsets)
        finally:
            await self._stop()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def put(self, event: Event) -> None:
        """Queue an event; may be called from any thread once the writer is open."""
        segment = self._topology.route(key_hash(event.key))
        is_first = self._outbox.write(segment, event, _stamp if self._automatic else None)
        if is_first or self._outbox.waiting_bytes(segment) >= self._batch_bytes:
            self._wake(segment, urgent=not is_first)

    def put_note(self, time: int) -> None:
        """Queue a note; may be called from any thread once the writer is open."""
        missing = self._outbox.note(time)
        for segment in missing:
            self._wake(segment, urgent=True)
        if not missing:
            self._on_loop(self._notes_ready.set)

    def hurry(self) -> None:
        """Send what lingers."""
        for segment in self._topology.unsealed:
            if self._outbox.waiting_bytes(segment):
                self._wake(segment, urgent=True)

    def _wake(self, segment: int, *, urgent: bool) -> None:
        self._on_loop(lambda: self._signal(segment, urgent=urgent))

    def _on_loop(self, work: Callable[[], object]) -> None:
        work()

    def _signal(self, segment: int, *, urgent: bool) -> None:
        if segment not in self._signals:
            self._signals[segment] = asyncio.Event()
            self._urgent[segment] = asyncio.Event()
            self._start(segment, self._send_segment(segment))
        self._signals[segment].set()
        if urgent:
            self._urgent[segment].set()

    def _start(self, what: object, work: Coroutine[Any, Any, None]) -> None:
        self._tasks[what] = asyncio.get_running_loop().create_task(self._guarded(work))

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """Stop the writer when its background work fails; its callers are told."""
        try:
            await work
        except ReportRefusedError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 (raised again by every later call)
            failure = EventsNotStoredError(self._outbox.unacknowledged, error)
            failure.__cause__ = error
            self._fail(failure)

    def _fail(self, error: BaseException) -> None:
        self._outbox.fail(error)
        self._progress.set()

    async def _send_segment(self, segment: int) -> None:
        sequence = 0
        while True:
            await self._signals[segment].wait()
            self._signals[segment].clear()
            await self._linger(segment)
            while batch := self._take(segment):
                sequence += 1
                appended = await self._calls.append(segment, _encode(batch), sequence)
                self._outbox.acknowledge(batch, appended.next_offset)
                self._notes_ready.set()
                self._progress.set()

    def _take(self, segment: int) -> EventBatch | None:
        batch = self._outbox.take(
            segment, max_events=_BATCH_EVENTS, max_bytes=self._batch_bytes
        )
        return batch if batch.events else None

    async def _linger(self, segment: int) -> None:
        try:
            async with asyncio.timeout(self._linger_s):
                await self._urgent[segment].wait()
        except TimeoutError:
            return
        finally:
            self._urgent[segment].clear()

    async def _report(self) -> None:
        while True:
            await self._notes_ready.wait()
            self._notes_ready.clear()
            while notes := self._outbox.ready_notes(_NOTES_AT_ONCE):
                await self._calls.note_times(notes)
                self._outbox.drop_notes(len(notes))
                self._progress.set()

    async def _note_ingestion_time(self) -> None:
        while True:
            self.put_note(_stamp(self._outbox.last_time))
            await asyncio.sleep(_INGESTION_PERIOD_S)

    async def _finish(self) -> None:
        await self.flush()
        if self._outbox.last_time is not None:
            await self._calls.note_times([(self._outbox.last_time, self._outbox.offsets)])

    async def _stop(self) -> None:
        self._closed = True
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self._calls.transport.aclose()
        if self._outbox.failure is None:
            self._outbox.fail(WriterClosedError(self.name))

    def _refuse_if_closed(self) -> None:
        if self._closed:
            self._outbox.raise_failure()


class Writer:
    """Writes events to a stream of the embedded log and notes time, from any thread.

    The synchronous face of `AsyncWriter`, which describes the parameters and the difference of
    `close` and `leave`. Use it as a context manager.

    Examples
    --------
    >>> with Writer("http://127.0.0.1:8470", "demo/rides", "gateway-7") as writer:
    ...     writer.write("ride 1", key="taxi-3", event_time=1_700_000_000_000)
    ...     writer.note_time(1_700_000_000_000)  # doctest: +SKIP
    """

    def __init__(self, url: str, stream: str, name: str, **options: Any) -> None:  # noqa: ANN401 (AsyncWriter's)
        self._thread = LoopThread(f"tidegauge-writer-{name}")
        self._core = _ThreadedWriter(self._thread, url, stream, name, **options)
        self._opened = False

    @property
    def name(self) -> str:
        """The writer's name."""
        return self._core.name

    @property
    def incarnation(self) -> int | None:
        """From the registration; None before `open`."""
        return self._core.incarnation

    @property
    def watermark(self) -> int | None:
        """The newest watermark that this writer was told, ms."""
        return self._core.watermark

    @property
    def position(self) -> dict[int, int]:
        """How far the events of this writer are stored, former incarnations included."""
        return self._core.position

    def open(self) -> None:
        """Register; see `AsyncWriter.open`."""
        if not self._opened:
            self._run(self._core.open())
            self._opened = True

    def write(
        self,
        value: bytes | str,
        *,
        key: str,
        event_time: int | datetime | None = None,
    ) -> None:
        """Write an event, waiting only while the buffer is full; see `AsyncWriter.write`."""
        event = make_event(value, key, event_time)
        self._thread.check_process()
        self.open()
        self._core.put_when_room(event)

    def note_time(self, time: int | datetime) -> None:
        """Note a time without waiting; see `AsyncWriter.note_time`."""
        noted = to_event_time(time)
        self._thread.check_process()
        self.open()
        self._core.put_note(noted)

    def flush(self) -> None:
        """Wait until everything written and noted so far is stored; see `AsyncWriter.flush`."""
        self._run(self._core.flush())

    def close(self) -> None:
        """Flush, and stay a member of the stream; see `AsyncWriter.close`."""
        try:
            self._run(self._core.close())
        finally:
            self._thread.close()

    def leave(self) -> None:
        """Flush, and leave the stream; see `AsyncWriter.leave`."""
        try:
            self._run(self._core.leave())
        finally:
            self._thread.close()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return self._thread.run(work)


class _ThreadedWriter(AsyncWriter):
    """The asynchronous writer on a thread of its own, fed from others."""

    def __init__(
        self,
        thread: LoopThread,
        url: str,
        stream: str,
        name: str,
        **options: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(url, stream, name, **options)
        self._thread = thread

    def put_when_room(self, event: Event) -> None:
        """Queue an event once there is room."""
        if self._outbox.is_full:
            self._outbox.wait_for_room()
        self.put(event)

    def _on_loop(self, work: Callable[[], object]) -> None:
        self._thread.call_soon(work)


def make_event(value: bytes | str, key: str, event_time: int | datetime | None) -> Event:
    """Check and convert what a caller writes.

    Raises
    ------
    TypeError, ValueError
        If something is not what it should be.
    """
    if isinstance(value, str):
        value = value.encode()
    if not isinstance(value, bytes):
        msg = f"value is {type(value).__name__}; pass bytes or str"
        raise TypeError(msg)
    if not isinstance(key, str):
        msg = f"key is {key!r}; pass a string, it routes the event"
        raise TypeError(msg)
    return Event(key, None if event_time is None else to_event_time(event_time), value)


def _stamp(last_time: int | None) -> int:
    """Read the wall clock, which must not fall behind what was noted."""
    now = _wall_ms()
    return now if last_time is None else max(now, last_time)


def _encode(batch: EventBatch) -> bytes:
    columns = list(zip(*batch.events, strict=True))
    arrays = [
        pa.array(column, field.type)
        for column, field in zip(columns, EVENT_SCHEMA, strict=True)
    ]
    return encode_events(pa.RecordBatch.from_arrays(arrays, schema=EVENT_SCHEMA))
