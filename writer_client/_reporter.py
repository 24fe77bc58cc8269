"""Noting time for a log of one's own."""

import asyncio
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Unpack

from tidegauge.client.blocks import AsyncOpening, Opening
from tidegauge.client.sync import LoopThread, SyncFace, blocking
from tidegauge.client.transport import RETRY_FOR, Transport
from tidegauge.event_time import to_event_time
from writer_client._beats import beat_on, check_beat
from writer_client._client import WriterCalls
from writer_client._errors import WriterClosedError
from writer_client._options import ReporterOptions


class AsyncTimeReporter(AsyncOpening):
    """Notes time for events that its owner writes to another log, such as Kafka.

    Parameters
    ----------
    url
        Of the service.
    stream
        ``scope/stream``, created with ``log: external``.
    name
        Of this writer: chosen by its owner, and the same after a restart.
    token : str, optional
        Bearer token, if the service wants one.
    first_time : int or datetime, optional
        Nothing that will be written is older (ms or an aware datetime).
    retry_for : timedelta, default 60 s
        How long a request is repeated while the service is away.
    beat : {"never", "always"}, default "never"
        Whether to `beat` by itself, a third of ``aggregation_timeout_ms`` after it last reported. A
        beat that is refused is raised by the next call.

    Notes
    -----
    After a restart the first report should cover what the former process wrote; the end
    offsets of the log are always safe. For `close` and `leave` see `AsyncWriter`; leaving the
    ``async with`` block closes.

    Examples
    --------
    >>> import asyncio
    >>> async def main() -> None:
    ...     url = "http://127.0.0.1:8470"
    ...     async with AsyncTimeReporter(url, "shop/orders", "api-1") as reporter:
    ...         await reporter.note_time(1_700_000_000_000, {0: 120, 3: 45})
    ...         print(reporter.watermark)
    >>> asyncio.run(main())
    1700000000000
    """

    def __init__(
        self, url: str, stream: str, name: str, **options: Unpack[ReporterOptions]
    ) -> None:
        transport = Transport(
            url, token=options.get("token"), retry_for=options.get("retry_for", RETRY_FOR)
        )
        self._calls = WriterCalls(transport, stream, name)
        first_time = options.get("first_time")
        self._first_time = None if first_time is None else to_event_time(first_time)
        self._one_at_a_time = asyncio.Lock()
        beat = check_beat(options.get("beat", "never"), "never", "always")
        self._always_beats = beat == "always"
        self._beats: asyncio.Task[None] | None = None
        self._last: tuple[int, dict[int, int]] | None = None
        self._closed = False

    @property
    def incarnation(self) -> int | None:
        """From the registration; None before `open`."""
        return self._calls.incarnation

    @property
    def watermark(self) -> int | None:
        """The newest watermark that this writer was told, ms."""
        return self._calls.watermark

    @property
    def told_time(self) -> int | None:
        """What the registration told, ms: nothing below it is safe to write; see `AsyncWriter`."""
        return self._calls.told_time

    async def open(self) -> None:
        """Register. Every other method that needs it does it too."""
        async with self._one_at_a_time:
            await self._open()

    async def note_time(self, time: int | datetime, position: Mapping[int, int]) -> None:
        """Promise that every event written after a position is at or above a time.

        Parameters
        ----------
        time
            In ms, or an aware datetime (floored to ms).
        position
            Partition to next offset; only those that changed need be named.

        Raises
        ------
        ReportRefusedError
            If the service refuses; `WriterFencedError` if another process took the name.
        ServiceUnreachableError
            If it does not answer; the report may be repeated.
        """
        noted = to_event_time(time)
        async with self._one_at_a_time:
            await self._open()
            await self._calls.note_time(noted, position)
            self._last = noted, (self._last[1] if self._last else {}) | dict(position)

    async def beat(self) -> None:
        """Say that the last time still holds: note it again, with nothing new written.

        Before the first note it says `told_time`, and no earlier time can be noted then; if there is
        none, nothing. Raises what `note_time` does.
        """
        async with self._one_at_a_time:
            await self._open()
            await self._calls.beat(self._calls.told_time)

    async def close(self) -> None:
        """Stop, and stay a member of the stream."""
        self._closed = True
        if self._beats is not None:
            self._beats.cancel()
            await asyncio.gather(self._beats, return_exceptions=True)
        await self._calls.transport.aclose()

    async def leave(self) -> None:
        """Leave the stream: this writer will not return, and nobody waits for it."""
        async with self._one_at_a_time:
            await self._open()
            time, position = self._last or (None, {})
            try:
                await self._calls.leave(time, position)
            finally:
                await self.close()

    async def _open(self) -> None:
        if self._closed:
            raise WriterClosedError(self._calls.name)
        if self._calls.incarnation is None:
            await self._calls.describe()
            await self._calls.register(self._first_time)
            if self._always_beats:
                beats = beat_on(
                    self._calls, wanted=lambda: True, otherwise=lambda: self._calls.told_time
                )
                self._beats = asyncio.get_running_loop().create_task(beats)
        if self._beats is not None and self._beats.done():
            self._beats.result()


class TimeReporter(SyncFace[AsyncTimeReporter], Opening):
    """The synchronous face of `AsyncTimeReporter`, usable from several threads.

    Examples
    --------
    >>> with TimeReporter("http://127.0.0.1:8470", "shop/orders", "api-1") as reporter:
    ...     reporter.note_time(1_700_000_000_000, {0: 120, 3: 45})
    ...     print(reporter.watermark)
    1700000000000
    """

    def __init__(
        self, url: str, stream: str, name: str, **options: Unpack[ReporterOptions]
    ) -> None:
        self._thread = LoopThread(
            f"tidegauge-reporter-{name}", closed=partial(WriterClosedError, name)
        )
        self._core = AsyncTimeReporter(url, stream, name, **options)

    @property
    def incarnation(self) -> int | None:
        """From the registration; None before `open`."""
        return self._core.incarnation

    @property
    def watermark(self) -> int | None:
        """The newest watermark that this writer was told, ms."""
        return self._core.watermark

    @property
    def told_time(self) -> int | None:
        """What the registration told, ms: nothing below it is safe to write; see `AsyncWriter`."""
        return self._core.told_time

    open = blocking(AsyncTimeReporter.open)
    note_time = blocking(AsyncTimeReporter.note_time)
    beat = blocking(AsyncTimeReporter.beat)

    def close(self) -> None:
        """Stop, and stay a member of the stream."""
        self._thread.end(self._core.close)

    def leave(self) -> None:
        """Leave the stream; see `AsyncTimeReporter.leave`."""
        self._thread.check_open()
        self._thread.end(self._core.leave)
