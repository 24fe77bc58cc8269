"""A reader as a member of its group: its epoch, its heartbeat, and its clients to the streams."""

from collections.abc import Callable
from functools import partial
from typing import Any

from reader_client._group import AsyncReaderGroup, Heartbeat
from reader_client._stream import AsyncStreamClient
from tidegauge import groups
from tidegauge.groups import GroupState, Offsets
from tidegauge.names import check_name
from tidegauge.wire.groups import ReaderBalance, ReaderJoined, ReaderPosition, by_stream


class Member:
    """A reader of a group under its name.

    Attributes
    ----------
    clients
        To the streams of the group, by their names.
    heartbeat
        From joining to leaving.
    """

    def __init__(self, group: AsyncReaderGroup, name: str) -> None:
        self.group = group
        self.name = check_name(name)
        self.epoch: int | None = None
        self.clients: dict[str, AsyncStreamClient] = {}
        self.heartbeat: Heartbeat | None = None

    async def join(self) -> None:
        """Join the group, once."""
        if self.epoch is not None:
            return
        info = await self.group.describe()
        self.clients = {
            stream: self.group.stream_client(stream, info.stream_ids[stream])
            for stream in info.streams
        }
        joined = await self.group.call("POST", f"/readers/{self.name}", ReaderJoined)
        self.begin(joined.epoch, every_ms=info.heartbeat_ms)

    def begin(self, epoch: int, *, every_ms: int) -> None:
        """Begin to send heartbeats of an epoch."""
        self.epoch = epoch
        self.heartbeat = Heartbeat(self.group, self.name, epoch, every_ms=every_ms)

    def raise_failure(self) -> None:
        """Raise what stopped the heartbeat, if something did."""
        if self.heartbeat is not None:
            self.heartbeat.raise_failure()

    async def change(self, transition: Callable[..., GroupState], **more: Any) -> GroupState:  # noqa: ANN401 (its arguments)
        """Apply a transition of this reader to the state of the group."""
        return await self.group.change(
            partial(transition, reader=self.name, epoch=self.epoch or 0, **more)
        )

    async def report(self, offsets: Offsets) -> None:
        """Confirm how far segments are read that it owns."""
        if offsets and self.heartbeat is not None:
            body = ReaderPosition(epoch=self.epoch or 0, position=by_stream(offsets))
            path = f"/readers/{self.name}/position"
            self.heartbeat.note(await self.group.call("POST", path, ReaderBalance, body=body))

    async def own(self, offsets: Offsets) -> None:
        """Own exactly these segments, and confirm how far they are read."""
        topologies = {name: await client.topology() for name, client in self.clients.items()}
        await self.change(groups.confirm, topologies=topologies, offsets=offsets)

    async def skip_truncated(self, stream: str) -> None:
        """Go on where a stream begins, in all that it owns of it or has to take for that."""
        info = await self.clients[stream].describe()
        await self.change(
            groups.skip_truncated,
            stream=stream,
            topology=info.topology.to_topology(),
            first=info.first_cut or {},
        )

    async def is_all_read(self) -> bool:
        """Return whether every stream is sealed and everything is read by somebody."""
        state, _ = await self.group.state()
        if state.unassigned or any(one.owned for one in state.readers.values()):
            return False
        return all([(await client.tail()).final for client in self.clients.values()])

    async def stop(self) -> None:
        """Beat no more."""
        if self.heartbeat is not None:
            await self.heartbeat.stop()
        self.epoch = self.heartbeat = None

    async def disconnect(self) -> None:
        """Stop the heartbeat, and close the connections."""
        await self.stop()
        for client in self.clients.values():
            await client.aclose()
        await self.group.aclose()
