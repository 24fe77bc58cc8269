"""The only reader of a group, whose position comes from outside."""

from collections.abc import Mapping
from functools import partial
from typing import Unpack

from reader_client._group import AsyncReaderGroup
from reader_client._member import Member
from reader_client._stream import ReaderOptions
from tidegauge import groups
from tidegauge.client.blocks import Closing
from tidegauge.client.sync import LoopThread, SyncFace, blocking, face_of
from tidegauge.topology import Position


class AsyncExclusiveReader:
    """The only reader of a group, for engines that keep offsets of their own.

    The engine's checkpoint says where to read; the group learns it, for its time window, its
    lag and what it retains.

    Parameters
    ----------
    url
        Of the service, or of each of its controllers, with commas between.
    group
        ``scope/group``, which exists.
    name
        Of this reader.
    token : str, optional
        Bearer token, if the service wants one.
    retry_for : timedelta, default 60 s
        How long a request is repeated while the service is away.
    """

    def __init__(
        self, url: str, group: str, name: str, **options: Unpack[ReaderOptions]
    ) -> None:
        self.group = AsyncReaderGroup(url, group, **options)
        self._member = Member(self.group, name)
        self.name = self._member.name

    async def take_over(self, positions: Mapping[str, Position]) -> None:
        """Take all other readers of the group offline, and start at a position in each stream.

        Parameters
        ----------
        positions
            By ``scope/stream``. May lie before the group's own. Partitions of an external
            log that the stream does not have yet are left out.
        """
        # First: a failure behind the takeover would leave it without its epoch, as if fenced.
        every_ms = (await self.group.describe()).heartbeat_ms
        # whoever joins next is a takeover of somebody, which alone may go back
        await self.group.change(partial(groups.join_group, reader=self.name))
        topologies = await self.group.topologies()
        within = _within(positions, topologies)
        taken = partial(
            groups.take_over, reader=self.name, topologies=topologies, positions=within
        )
        state = await self.group.change(taken)
        await self._member.stop()
        self._member.begin(state.epochs, every_ms=every_ms)

    async def confirm(self, positions: Mapping[str, Position]) -> None:
        """Confirm that everything before a position of each stream was read.

        Who was silent for too long and taken offline comes back, if nobody else has come.

        Raises
        ------
        ReaderFencedError
            If another process took the group over.
        """
        state, _ = await self.group.state()
        if self.name not in state.readers and state.epochs == (self._member.epoch or 0):
            await self.take_over(positions)
            return
        topologies = await self.group.topologies()
        within = _within(positions, topologies)
        await self._member.change(groups.assign_all, topologies=topologies, positions=within)

    async def close(self) -> None:
        """Go offline at the group's position, unless another process took it over."""
        epoch = self._member.epoch
        await self._member.stop()
        try:
            state, _ = await self.group.state()
            mine = state.readers.get(self.name)
            if mine is not None and mine.epoch == epoch:
                await self.group.reader_offline(self.name, epoch=mine.epoch)
        finally:
            await self._member.disconnect()


def _within(
    positions: Mapping[str, Position], topologies: groups.Topologies
) -> Mapping[str, Position]:
    return {
        stream: {n: at for n, at in position.items() if n in topologies.get(stream, position)}
        for stream, position in positions.items()
    }


@face_of(AsyncExclusiveReader)
class ExclusiveReader(SyncFace[AsyncExclusiveReader], Closing):
    """The synchronous face of `AsyncExclusiveReader`."""

    def __init__(
        self, url: str, group: str, name: str, **options: Unpack[ReaderOptions]
    ) -> None:
        self._thread = LoopThread(f"tidegauge-reader-{name}")
        self._core = AsyncExclusiveReader(url, group, name, **options)

    take_over = blocking(AsyncExclusiveReader.take_over)
    confirm = blocking(AsyncExclusiveReader.confirm)

    def close(self) -> None:
        """Go offline at the group's position."""
        self._thread.end(self._core.close)
