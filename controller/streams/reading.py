"""Reading the embedded log: whole chunks as they lie in the database, a page at a time."""

from collections.abc import AsyncIterator
from functools import partial

from controller.database import Database
from controller.log.codec import END_OF_STREAM, SCHEMA_MESSAGE, without_first
from controller.log.storage import Chunk, read_chunks
from controller.streams.stream import StreamState
from tidegauge.errors import (
    InvalidRequestError,
    TruncatedError,
    UnknownStreamError,
    UnknownStreamSegmentError,
)

_PAGE_BYTES = 4 * 1_048_576
"""As much as one chunk may have: a read holds a page in memory, however slow its reader is."""


def check_range(
    state: StreamState, segment: int, start: int | None, end: int | None
) -> tuple[int, int]:
    """Bound a range of offsets by what is durable; without a start, from the first offset."""
    begins, tails = state.embedded_log().first, state.durable_tails
    if segment not in state.published.topology:
        raise UnknownStreamSegmentError(segment)
    tail, first = tails.get(segment, 0), begins.get(segment, 0)
    start = first if start is None else start
    if start < first:
        raise TruncatedError(str(state.identity.name), segment, start, first)
    if start > tail:
        raise InvalidRequestError.of("start", f"{start} is beyond the tail, {tail}")
    if end is not None and end < start:
        raise InvalidRequestError.of("end", f"{end} is before the start, {start}")
    return start, tail if end is None else min(end, tail)


async def open_read(
    database: Database, state: StreamState, segment: int, start: int, end: int
) -> tuple[int, AsyncIterator[bytes]]:
    """Open a read of whole chunks: the offset of its first event, and an Arrow IPC stream."""
    page = await _page(database, state, segment, start, end)
    first = page[0].first_offset if page else start

    async def body() -> AsyncIterator[bytes]:
        nonlocal page  # so that no more than one is in memory
        offset = first
        yield SCHEMA_MESSAGE
        while page:
            for chunk in page:
                if chunk.first_offset == offset:
                    yield chunk.data
                else:  # compaction has merged what was sent before with what follows
                    yield without_first(chunk.data, offset - chunk.first_offset)
                offset = chunk.first_offset + chunk.events
            try:
                page = await _page(database, state, segment, offset, end)
            except TruncatedError:
                break  # the next read, which begins there, gets the error
        yield END_OF_STREAM

    return first, body()


async def _page(
    database: Database, state: StreamState, segment: int, start: int, end: int
) -> list[Chunk]:
    """Read the next chunks; none only at the end."""
    if start >= end:
        return []
    page = await database.read(
        partial(
            read_chunks,
            stream_key=state.identity.key,
            segment=segment,
            start=start,
            end=end,
            limit=_PAGE_BYTES,
        )
    )
    if not page or state.deleted:  # its chunks are being removed
        check_range(state, segment, start, end)  # or were truncated since the check
        raise UnknownStreamError(str(state.identity.name))
    return page
