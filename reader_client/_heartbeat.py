"""Saying regularly that a reader lives."""

import asyncio

from reader_client._group import AsyncReaderGroup
from tidegauge.wire.groups import ReaderHeartbeat
from tidegauge.wire.values import Answer


class Heartbeat:
    """The heartbeat of one reader, from now until it is stopped or refused.

    Parameters
    ----------
    group
        The reader's.
    reader, epoch
        Who lives.
    every_ms
        How often it says so.
    """

    def __init__(
        self, group: AsyncReaderGroup, reader: str, epoch: int, *, every_ms: int
    ) -> None:
        self._group = group
        self._path = f"/readers/{reader}/heartbeat"
        self._beat = ReaderHeartbeat(epoch=epoch)
        self._every_s = every_ms / 1_000
        self._failure: Exception | None = None
        self._task = asyncio.create_task(self._run())

    def raise_failure(self) -> None:
        """Raise what stopped the heart, if something did."""
        if self._failure is not None:
            raise self._failure

    async def stop(self) -> None:
        """Beat no more."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while self._failure is None:
            await asyncio.sleep(self._every_s)
            try:
                await self._group.call("POST", self._path, Answer, body=self._beat)
            except Exception as error:  # noqa: BLE001 (raised by the reader's next call)
                self._failure = error
