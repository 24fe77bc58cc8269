"""The synchronous face of writers."""

import warnings
import weakref
from collections.abc import Callable, Coroutine, Hashable
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Unpack

import pyarrow as pa

from tidegauge.client.blocks import Opening
from tidegauge.client.sync import LoopThread, face_of
from tidegauge.event_time import to_event_time
from writer_client._async_writer import AsyncWriter
from writer_client._columns import EventTimes, Keys, Values, in_parts, to_events
from writer_client._core import WriterCore, WriterFace
from writer_client._errors import WriterClosedError
from writer_client._events import MOST_VALUE_BYTES, check_key, check_time, check_value
from writer_client._options import WriterOptions
from writer_client._outbox import Wake
from writer_client._transaction import LEASE, Transaction


@face_of(AsyncWriter)
class Writer(WriterFace, Opening):
    """Writes events to a stream of the embedded log and notes time, from any thread.

    The synchronous face of `AsyncWriter`, which describes the errors and the
    difference of `close` and `leave`. Use it as a context manager. A process that forks makes a
    writer in each child: one made before raises `ForkedClientError` there.

    Examples
    --------
    >>> with Writer("http://127.0.0.1:8470", "demo/rides", "gateway-7") as writer:
    ...     writer.write("ride 1", key="taxi-3", event_time=1_700_000_000_000)
    ...     writer.note_time(1_700_000_000_000)
    ...     writer.flush()
    ...     print(sum(writer.position.values()))
    1
    """

    def __init__(
        self, url: str, stream: str, name: str, **options: Unpack[WriterOptions]
    ) -> None:
        self._core = WriterCore(url, stream, name, **options)
        self._member = self._core.member
        closed = partial(WriterClosedError, name)
        self._thread = LoopThread(f"tidegauge-writer-{name}", closed=closed)
        self._forgotten = weakref.finalize(self, _warn_forgotten, self._core, self._thread)

    def open(self) -> None:
        """Register; see `AsyncWriter.open`."""
        self._thread.check_process()
        if self._member.opened:
            self._core.refuse_if_closed()
        else:
            self._thread.run(self._core.open())

    def write(
        self,
        value: bytes | str,
        *,
        key: str,
        event_time: int | datetime | None = None,
        source: Hashable = None,
    ) -> None:
        """Write an event, blocking only while the buffer is full; see `AsyncWriter.write`."""
        # What nearly every event is like is seen here: a call would cost more than the checks.
        if type(key) is not str or not key.isascii():
            check_key(key)
        if type(value) is bytes and len(value) <= MOST_VALUE_BYTES:
            payload = value
        else:
            payload = check_value(value, key)
        time = None if event_time is None else check_time(event_time)
        self.open()
        outbox = self._core.outbox
        if outbox.is_full:
            outbox.wait_for_room()
        if wake := outbox.write(key, time, payload, source):
            self._wake(wake)

    def write_many(
        self,
        values: Values | pa.Table | pa.RecordBatch,
        *,
        keys: Keys | None = None,
        event_times: EventTimes | None = None,
        source: Hashable = None,
    ) -> None:
        """Write many events, as `write` does in turn, and faster; see `AsyncWriter.write_many`."""
        events = to_events(values, keys, event_times)
        self.open()
        outbox = self._core.outbox
        for part in in_parts(events, outbox.batch_bytes):
            if outbox.is_full:
                outbox.wait_for_room()
            if wake := outbox.write_many(part, source):
                self._wake(wake)

    def note_time(self, time: int | datetime) -> None:
        """Note a time without waiting; see `AsyncWriter.note_time`."""
        noted = to_event_time(time)
        self.open()
        self._core.outbox.note(noted)
        self._wake(Wake.SEND)

    def transaction(self, *, timeout: timedelta = LEASE) -> Transaction:
        """Write events that are seen all at once, or never; see `AsyncWriter.transaction`."""
        return Transaction(self._core, timeout, self._thread)

    def flush(self) -> None:
        """Block until what was written and noted so far is stored; see `AsyncWriter.flush`."""
        self._core.refuse_if_closed()
        self._thread.run(self._core.flush())

    def close(self) -> None:
        """Flush, and stay a member of the stream; see `AsyncWriter.close`."""
        self._end(self._core.close)

    def leave(self) -> None:
        """Flush, and leave the stream; see `AsyncWriter.leave`."""
        self._thread.check_open()
        self._end(self._core.leave)

    def _wake(self, wake: Wake) -> None:
        self._thread.call_soon(partial(self._core.sending.wake, urgent=wake is Wake.SEND))

    def _end(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            self._thread.end(last)
        finally:
            self._forgotten.detach()


def _warn_forgotten(core: WriterCore, thread: LoopThread) -> None:
    """Warn that events may be lost: at the end of the process the sending thread just ends."""
    if core.outbox.unstored and thread.is_own_process:
        warnings.warn(
            f"writer {core.calls.name!r} was never closed: "
            f"{core.outbox.unstored} events may not be stored",
            RuntimeWarning,
            stacklevel=2,
        )
