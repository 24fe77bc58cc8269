"""Reading the embedded log: whole chunks as they lie in the database, a page at a time."""

from collections.abc import AsyncIterator
from functools import partial

from controller.log.codec import END_OF_STREAM, SCHEMA_MESSAGE, without_first
from controller.log.state import Chunk
from controller.log.storage import read_chunks
from controller.service import Service
from controller.streams.appends import ends_of
from controller.streams.stream import StreamState
from tidegauge.errors import (
    InvalidRequestError,
    UnknownStreamError,
    UnknownStreamSegmentError,
)

_PAGE_BYTES = 4 * 1_048_576


def check_range(
    state: StreamState, segment: int, start: int, end: int | None
) -> tuple[int, int]:
    """Bound a range of offsets by what is durable.

    Raises
    ------
    InvalidRequestError
        If it starts beyond the tail, or ends before it starts.
    """
    ends_of(state)
    if segment not in state.published_topology:
        raise UnknownStreamSegmentError(segment)
    tail = durable_tail(state, segment)
    if start > tail:
        raise InvalidRequestError.of("start", f"{start} is beyond the tail, {tail}")
    if end is not None and end < start:
        raise InvalidRequestError.of("end", f"{end} is before the start, {start}")
    return start, tail if end is None else min(end, tail)


def durable_tail(state: StreamState, segment: int) -> int:
    """Look up the next offset of a segment, of what is on disk."""
    return (state.published_tails or {}).get(segment, 0)


async def open_read(
    service: Service, state: StreamState, segment: int, start: int, end: int
) -> tuple[int, AsyncIterator[bytes]]:
    """Open a read of whole chunks.

    Returns
    -------
    tuple
        The offset of the first event, and the bytes of an Arrow IPC stream.
    """
    page = await _page(service, state, segment, start, end)
    first = page[0].first_offset if page else start
    return first, _body(service, state, page, segment=segment, at=first, end=end)


async def _body(  # noqa: PLR0913 (parts of one read)
    service: Service,
    state: StreamState,
    page: list[Chunk],
    *,
    segment: int,
    at: int,
    end: int,
) -> AsyncIterator[bytes]:
    yield SCHEMA_MESSAGE
    while page:
        for chunk in page:
            yield _from(chunk, at)
            at = chunk.first_offset + chunk.events
        page = await _page(service, state, segment, at, end)
    yield END_OF_STREAM


def _from(chunk: Chunk, at: int) -> bytes:
    """Leave out what was sent before, should compaction have merged it with what follows."""
    if chunk.first_offset == at:
        return chunk.data
    return without_first(chunk.data, at - chunk.first_offset)


async def _page(
    service: Service, state: StreamState, segment: int, start: int, end: int
) -> list[Chunk]:
    """Read the next chunks; none only at the end.

    Raises
    ------
    UnknownStreamError
        If the stream is deleted, and so its chunks will be.
    """
    if start >= end:
        return []
    page = await service.database.read(
        partial(
            read_chunks,
            stream_key=state.identity.key,
            segment=segment,
            start=start,
            end=end,
            limit=_PAGE_BYTES,
        )
    )
    if not page or (state.deleted and not state.moved):
        raise UnknownStreamError(str(state.identity.name))
    return page
