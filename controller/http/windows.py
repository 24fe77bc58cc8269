"""Where reader groups are in event time."""

from collections.abc import Sequence
from dataclasses import dataclass

from controller.database import Database
from controller.groups import Groups, StoredGroup
from controller.http.routing import stream_facts
from controller.streams import history
from controller.streams.registry import Registry
from tidegauge.errors import StreamReplacedError, UnknownStreamError
from tidegauge.names import StreamName
from tidegauge.windows import TimeWindow, joint_window
from tidegauge.wire.groups import GroupWindows, TimeWindowInfo
from tidegauge.wire.streams import MarkInfo


@dataclass(frozen=True, slots=True)
class Windows:
    """Finds time windows of groups."""

    _database: Database
    _registry: Registry
    _groups: Groups

    async def of(self, group: StoredGroup, stream: str) -> TimeWindowInfo:
        """Find the window of a group in one of its streams, which must be there still."""
        state = self._registry.get(StreamName.parse(stream))
        state.check_id(group.settings.stream_ids[stream])
        topology, held = state.published.topology, self._groups.find(group.name)
        keeps = held if held is not None and held.state is group.state else group.state
        position = keeps.frontier(stream, topology)
        found = await history.at_position(self._database, state, position)
        following = found.following
        return TimeWindowInfo(
            stream=stream,
            lower=found.window.lower,
            upper=found.window.upper,
            position=position,
            next_mark=None if following is None else MarkInfo.of(following),
            **stream_facts(state),
        )

    async def of_all(self, group: StoredGroup, *, now_ms: int) -> GroupWindows:
        """Find the windows of a group in all of its streams, but for what is deleted by now."""
        windows = await self.of_those_left(group, group.settings.streams)
        joint = joint_window([TimeWindow(one.lower, one.upper) for one in windows])
        return GroupWindows(
            group=str(group.name),
            lower=joint.lower,
            upper=joint.upper,
            windows=windows,
            now_ms=now_ms,
        )

    async def of_those_left(
        self, group: StoredGroup, streams: Sequence[str]
    ) -> list[TimeWindowInfo]:
        """Find the windows of a group in some of its streams, but for what is deleted by now."""
        windows = []
        for stream in streams:
            try:
                windows.append(await self.of(group, stream))
            except (UnknownStreamError, StreamReplacedError):
                continue  # the others are wanted all the same
        return windows
