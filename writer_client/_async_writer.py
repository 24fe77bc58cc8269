"""The asynchronous face of writers."""

from collections.abc import Hashable
from datetime import datetime, timedelta
from typing import Unpack

import pyarrow as pa

from tidegauge.client.blocks import AsyncOpening
from tidegauge.event_time import to_event_time
from writer_client._columns import EventTimes, Keys, Values, in_parts, to_events
from writer_client._core import WriterCore, WriterFace
from writer_client._events import check_key, check_time, check_value
from writer_client._options import WriterOptions
from writer_client._outbox import Wake
from writer_client._transaction import LEASE, AsyncTransaction


class AsyncWriter(WriterFace, AsyncOpening):
    """Writes events to a stream of the embedded log and notes time, from one event loop.

    Events are batched and sent in the background, each stored exactly once however often it
    has to be sent; `flush` waits until they are stored. Use it as an asynchronous context
    manager, or call `open` and `close`.

    Parameters
    ----------
    url
        Of the service, or of each of its controllers, with commas between.
    stream
        ``scope/stream``.
    name
        Of this writer: chosen by its owner, and the same after a restart. Only one process
        writes under a name at a time: the newest; the one before stops with
        `WriterFencedError`.
    token : str, optional
        Bearer token, if the service wants one.
    first_time : int or datetime, optional
        Nothing that will be written is older (ms or an aware datetime). Without it this
        writer is at `registered_time` from its registration to its first note.
    automatically_note_time : bool, default False
        Use ingestion time: events without a time get the wall clock, which is noted by a strategy, a
        ``TimeLag`` of 0, also while nothing is written, so that an idle writer holds nobody up.
    strategy : Strategy, optional
        Notes by itself, see `writer_client.strategies`: every ``note_interval``, at once where an event says
        so, and with `flush`, `close` and `leave`. `note_time` may still promise more. Idle by its strategy,
        the writer beats for what is not acknowledged only.
    note_interval : timedelta, default 200 ms
        How often a strategy is asked.
    beat : {"unacknowledged", "always"}, default "unacknowledged", with a strategy "always"
        When the writer repeats its last accepted time, so that it is not dropped for silence:
        a third of ``aggregation_timeout_ms`` after it last reported, while something that was
        written is not acknowledged, or always. With "always" a beat before the first note says
        `registered_time`, and no earlier time can be noted then.
    batch_bytes : int, default 4 MiB
        Send events once there are so many bytes of them, and no more of one segment at once.
    linger : timedelta, default 5 ms
        … or once the first of them has waited so long. A note or a flush waits for nothing.
    buffer_bytes : int, default 16 MiB
        While more than this is not stored, `write` waits.
    retry_for : timedelta, default 60 s
        How long a request is repeated while the service is away. After that the writer stops
        with `EventsNotStoredError`.

    Notes
    -----
    Close or leave? `close` keeps the writer a member of the stream: whoever waits for it waits
    on until its successor of the same name notes a time, so that a deploy loses nothing.
    `leave` is for a writer that will not return: nobody waits for it.

    Leaving the ``async with`` block closes, also on an exception: what was written before it
    is stored, and the last noted time still holds.

    What fails in the background stops the writer and is raised by the next call, and by every
    later one. A refused note (`ReportRefusedError`) does not stop events written before it
    from being stored by `close`.

    Examples
    --------
    >>> import asyncio
    >>> async def main() -> None:
    ...     async with AsyncWriter("http://127.0.0.1:8470", "demo/rides", "gateway-7") as one:
    ...         await one.write("ride 1", key="taxi-3", event_time=1_700_000_000_000)
    ...         one.note_time(1_700_000_000_000)
    ...         await one.flush()
    ...         print(sum(one.position.values()))
    >>> asyncio.run(main())
    1
    """

    def __init__(
        self, url: str, stream: str, name: str, **options: Unpack[WriterOptions]
    ) -> None:
        self._core = WriterCore(url, stream, name, **options)
        self._member = self._core.member

    async def open(self) -> None:
        """Register. Every other method that needs it does it too.

        Raises
        ------
        UnknownStreamError, StreamSealedError, LogIsExternalError
            If there is nothing to write to.
        InvalidTimeError, TimeInFutureError
            If ``first_time`` is refused.
        ServiceUnreachableError
            If the service does not answer.
        """
        await self._core.open()

    async def write(
        self,
        value: bytes | str,
        *,
        key: str,
        event_time: int | datetime | None = None,
        source: Hashable = None,
    ) -> None:
        """Write an event; it is sent in the background. Waits only while the buffer is full.

        Parameters
        ----------
        value
            The payload; text is encoded as UTF-8.
        key
            Routes the event: events of one key keep their order.
        event_time
            In ms, or an aware datetime (floored to ms). An event without one belongs to no
            time and is never late.
        source
            The partition of the writer's own input that it comes from, for the strategy
            ``PerPartition``.

        Raises
        ------
        TypeError, ValueError
            If an argument is not what it should be, or the value has more than 16 MiB (less 64 KiB
            for what is around it); nothing is written then.
        EventsNotStoredError, WriterFencedError, ReportRefusedError
            What has stopped the writer before.
        WriterClosedError
            If it is closed.
        """
        payload = check_value(value, check_key(key))
        time = check_time(event_time)
        await self._until_there_is_room()
        if wake := self._core.outbox.write(key, time, payload, source):
            self._wake(wake)

    async def write_many(
        self,
        values: Values | pa.Table | pa.RecordBatch,
        *,
        keys: Keys | None = None,
        event_times: EventTimes | None = None,
        source: Hashable = None,
    ) -> None:
        """Write many events, as `write` does one after the other, several times as fast.

        Waits only while the buffer is full: it takes the events in parts of ``batch_bytes``.

        Parameters
        ----------
        values
            The payloads, as a sequence or an Arrow array of bytes or text; or an Arrow table with
            the columns ``key``, ``value`` and, if there are any, ``event_time``.
        keys
            As many, text.
        event_times
            As many, in ms or aware, null for an event without one; none of them has one if left
            out.
        source
            Of all of them, see `write`.

        Raises
        ------
        TypeError, ValueError
            If an argument is not what it should be, with the index; nothing is written then.
        EventsNotStoredError, WriterFencedError, ReportRefusedError, WriterClosedError
            As from `write`; some of the events may be written then.
        """
        events = to_events(values, keys, event_times)
        for part in in_parts(events, self._core.outbox.batch_bytes):
            await self._until_there_is_room()
            if wake := self._core.outbox.write_many(part, source):
                self._wake(wake)

    def note_time(self, time: int | datetime) -> None:
        """Promise that every event written from now on is at or above a time.

        It covers exactly what was written before it and does not wait: it is sent once all of
        that is stored.

        Raises
        ------
        TypeError, ValueError
            If the time is none.
        InvalidTimeError
            If it is below the time noted before; nothing is noted then, and the writer goes on.
        EventsNotStoredError, WriterFencedError, ReportRefusedError
            What has stopped the writer before, an earlier note that was refused for example.
        WriterClosedError
            If it is closed.
        """
        self._core.outbox.note(to_event_time(time))
        self._wake(Wake.SEND)

    def transaction(self, *, timeout: timedelta = LEASE) -> AsyncTransaction:
        """Write events that are seen all at once, in every segment, or never.

        Use it as an asynchronous context manager: leaving its block commits, an exception aborts.
        Until then nothing of it is seen; what is written outside is, and comes before it.

        Parameters
        ----------
        timeout
            Of its lease, which is kept while the block runs: if this process is gone, the service
            aborts after so long. From a second to a day.

        Raises
        ------
        TransactionOpenError
            By its block, if this writer has one open; by `note_time` of the writer meanwhile, since
            what the transaction will make visible may be older.
        TransactionFinishedError
            By its block, if the service aborted it: somebody registered under the name.
        ReportRefusedError
            By the end of its block, if the time is refused; it is aborted then.
        ServiceUnreachableError
            By the end of its block, if nobody answered for too long: it may be committed.
        """
        return AsyncTransaction(self._core, timeout)

    async def flush(self) -> None:
        """Wait until everything written and noted so far is stored.

        Raises
        ------
        EventsNotStoredError, WriterFencedError, ReportRefusedError
            If it is not.
        WriterClosedError
            If the writer is closed.
        """
        await self._core.flush()

    async def close(self) -> None:
        """Flush, note the last time again with the final position, and stay a member.

        Raises
        ------
        EventsNotStoredError, WriterFencedError, ReportRefusedError
            If something is not stored; the writer is closed nevertheless.
        """
        await self._core.close()

    async def leave(self) -> None:
        """Flush and leave the stream: this writer will not return, and no reader waits for it.

        Raises
        ------
        EventsNotStoredError, WriterFencedError, ReportRefusedError
            If something is not stored; then the writer is closed, but has not left.
        """
        await self._core.leave()

    async def _until_there_is_room(self) -> None:
        await self._core.open()
        if self._core.outbox.is_full:
            await self._core.wait_for_room()

    def _wake(self, wake: Wake) -> None:
        self._core.sending.wake(urgent=wake is Wake.SEND)
