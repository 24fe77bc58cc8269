"""Dropping the first events of a stream: at a cut, at a time, or by its retention.

Where the stream begins is stored at once; the rows of what lies before are removed bit by bit (see
`controller.background.purging`), so that truncating millions of events holds nobody up.
"""

import logging
from collections.abc import Iterator
from functools import partial
from typing import Literal

from sqlalchemy import Connection

from controller.database import Database
from controller.log import storage as log_storage
from controller.store.groups import read_groups
from controller.store.truncation import Truncation, read_truncation, write_truncation
from controller.streams import history
from controller.streams.stream import StreamState
from tidegauge.errors import EventsNeededError
from tidegauge.lattice import DownSet, covers, cut_of, down_set, frontier, join
from tidegauge.starts import starting_position
from tidegauge.topology import Position
from tidegauge.truncation import spared, truncated_at

Readers = Literal["refuse", "force", "spare"]
"""What to do if a reader group needs what would be dropped: refuse it, drop it, or drop less."""
_log = logging.getLogger(__name__)


async def truncate_at_cut(
    database: Database, state: StreamState, cut: Position, *, force: bool
) -> None:
    """Drop what lies before a cut; one that lies before the present first cut changes nothing."""
    first, tails = state.embedded_log().first, state.durable_tails
    gone = truncated_at(state.published.topology, first, tails, cut)
    await _truncate(database, state, gone, "force" if force else "refuse")


async def truncate_at_time(
    database: Database, state: StreamState, time: int, *, force: bool
) -> None:
    """Drop what lies before the first event at which event time reaches a time, per segment."""
    state.embedded_log()
    start, _ = await history.start_of(database, state, time)
    gone = down_set(state.published.topology, start or {})
    await _truncate(database, state, gone, "force" if force else "refuse")


async def apply_retention(database: Database, state: StreamState) -> None:
    """Drop what the retention of a stream lets go, and no reader group needs."""
    retention = state.config.retention
    if retention is None or state.published.tails is None:
        return
    age_ms, keep_bytes = retention.age_ms, retention.bytes
    before_ms = None if age_ms is None else state.now().wall_ms - age_ms
    topology, key = state.published.topology, state.identity.key
    first = state.embedded_log().first

    def read(connection: Connection) -> DownSet:
        fits = log_storage.appended_from(connection, key, keep_bytes) if keep_bytes else None
        limits = [limit for limit in (before_ms, fits) if limit is not None]
        if not limits:
            return {}
        ends = log_storage.appended_before(connection, key, max(limits))
        offsets = {number: max(first.get(number, 0), end) for number, end in ends.items()}
        # Of a segment only what has nothing left before it: the rest begins at a cut.
        gone = down_set(topology, starting_position(topology, {**first, **offsets}))
        return spared(
            topology, gone, (position for _, _, position in _needs(connection, state))
        )

    gone = await database.read(read)
    if any(count > first.get(number, 0) for number, count in gone.items()):
        await _truncate(database, state, gone, "spare")


async def _truncate(
    database: Database, state: StreamState, gone: DownSet, readers: Readers
) -> None:
    """Store where the stream begins, and then begin there.

    The race: a group goes on, or is created, before this is stored. So what the groups need is read in
    the transaction that stores it.
    """
    done = await database.change(partial(_store, state=state, gone=gone, readers=readers))
    if isinstance(done, EventsNeededError):
        raise done
    state.refuse_if_deleted()  # meanwhile
    before = state.published.first_cut
    state.begin_at(done)
    if state.published.first_cut != before:
        extra = {"stream": str(state.identity.name), "first_cut": state.published.first_cut}
        _log.info("stream truncated", extra=extra)


def _store(
    connection: Connection, state: StreamState, gone: DownSet, readers: Readers
) -> DownSet | EventsNeededError:
    """Return what is gone now, or the group that needs it.

    A refusal is returned: one that is raised would cost PostgreSQL's connection.
    """
    key, topology = state.identity.key, state.published.topology
    stored = read_truncation(connection, key)
    before = down_set(topology, stored.cut)
    if readers == "spare":
        gone = spared(
            topology, gone, (position for _, _, position in _needs(connection, state))
        )
    first = join(topology, [before, gone])
    if first == before:
        return before
    if readers == "refuse":
        for group, checkpoint, position in _needs(connection, state):
            if not covers(topology, position, first):
                at = cut_of(topology, position)
                return EventsNeededError(str(state.identity.name), group, checkpoint, at)
    ends = log_storage.read_ends(connection, key)
    running_times = {
        number: ends[number][1] if number in ends else stored.running_times.get(number)
        for number in topology.unsealed
        if first.get(number)
    }
    cut = frontier(topology, first)
    write_truncation(connection, key, Truncation(cut, running_times))
    return first


def _needs(
    connection: Connection, state: StreamState
) -> Iterator[tuple[str, str | None, Position]]:
    """List from where groups read on: name, named checkpoint (or None), and position."""
    stream, stream_id = str(state.identity.name), state.identity.stream_id
    for group in read_groups(connection, stream_id=stream_id):
        for checkpoint, position in group.resumable(stream, stream_id).items():
            yield str(group.name), checkpoint, position
