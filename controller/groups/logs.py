"""What reader groups read: the logs of streams, and how long embedded ones are."""

from typing import NamedTuple

from controller.store.groups import GroupSettings
from controller.streams.registry import Registry
from tidegauge.names import StreamName
from tidegauge.topology import Position, Topology


class Logs(NamedTuple):
    """What a group can read.

    Attributes
    ----------
    topologies
        By stream.
    tails
        Of streams with an embedded log.
    """

    topologies: dict[str, Topology]
    tails: dict[str, Position]


async def read_logs(registry: Registry, settings: GroupSettings) -> Logs:
    """Look up how long the logs of a group's streams are.

    Raises
    ------
    UnknownStreamError, StreamReplacedError
        If one of them is not there any more.
    """
    logs = Logs({}, {})
    for stream in settings.streams:
        state = await registry.look_at(StreamName.parse(stream))
        state.check_id(settings.stream_ids[stream])
        logs.topologies[stream] = state.published_topology
        if state.published_tails is not None:
            logs.tails[stream] = state.published_tails
    return logs
