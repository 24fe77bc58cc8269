"""Reading the segments that a group shares out to a reader."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from reader_client._events import Events
from reader_client._member import Member
from reader_client._share import Share, step
from tidegauge.errors import TruncatedError
from tidegauge.groups import SegmentRef

_T = TypeVar("_T")
_BEYOND_ALL = 2**63 - 1
"""An offset that no segment gets to."""


class Reading:
    """Reads for a member of a group what is its share, and confirms that."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self.share = Share()

    async def next(self, *, wait_ms: int, limit: int) -> tuple[SegmentRef, list[Events]] | None:
        """Read the next events of one segment; None if none came in time."""
        share, clock = self.share, asyncio.get_running_loop().time
        ends = clock() + wait_ms / 1_000
        await self._step_if_needed()
        growing, has_news = share.growing, True
        # A seal is news, too: to whoever iterates until the end.
        while has_news and growing == share.growing and not share.readable:
            left_ms = max(0, int((ends - clock()) * 1_000))
            has_news = await self._confirm_during(self._wait(wait_ms=left_ms))
            await self._step_if_needed()
        return await self._fetch(limit=limit)

    async def step(self) -> None:
        """Confirm what was returned before, complete what is read, and take a fair share."""
        member, share = self._member, self.share
        share.is_settled = False  # a step that is cut short is made again
        if member.heartbeat is not None:
            member.heartbeat.unbalanced.clear()  # before, for what the heartbeat learns meanwhile
        clients = sorted(member.clients.items())
        topologies = share.learn({name: await client.describe() for name, client in clients})
        state = await member.change(step, returned=share.returned, topologies=topologies)
        share.take(state, member.name, member.epoch or 0, topologies)

    async def _step_if_needed(self) -> None:
        """Step if there may be something to do; raise what stopped the heartbeat, if something did."""
        self._member.raise_failure()
        heartbeat = self._member.heartbeat
        if heartbeat is None or heartbeat.unbalanced.is_set() or self.share.needs_step:
            await self.step()

    async def _confirm_during(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Confirm what was returned before, while something else is done.

        It is confirmed, too, if that fails: the events were handed out.
        """
        returned = dict(self.share.returned)
        done: _T | BaseException
        done, confirmed = await asyncio.gather(
            work, self._member.report(returned), return_exceptions=True
        )
        if isinstance(confirmed, BaseException):
            raise confirmed
        self.share.confirm(returned)
        if isinstance(done, BaseException):
            raise done
        return done

    async def _fetch(self, *, limit: int) -> tuple[SegmentRef, list[Events]] | None:
        share = self.share
        ref = share.next()
        if ref is None:
            return None
        start, tail = share.offset(ref), share.tails[ref.stream].tail[ref.segment]
        fetch = self._member.clients[ref.stream].fetch(
            ref.segment, start, min(tail, start + limit)
        )
        try:
            found = await self._confirm_during(fetch)
        except TruncatedError:
            share.is_settled = False
            await self._member.skip_truncated(ref.stream)
            raise
        if found:
            share.returned[ref] = found[-1].end_offset
        return ref, found

    async def _wait(self, *, wait_ms: int) -> bool:
        """Wait on all streams at once, until the first has news, or segments are shared anew.

        False if no news came.
        """
        growing = sorted({ref.stream for ref in self.share.owned} & self.share.growing)
        if self._member.heartbeat is None or (
            self.share.owned and not growing and self.share.is_settled
        ):
            return False  # what is sealed has no news
        begin = asyncio.create_task
        waits = [begin(self._news(one, wait_ms=wait_ms)) for one in growing]
        waits.append(begin(self._member.heartbeat.unbalanced.wait()))
        timeout = None if growing else wait_ms / 1_000
        try:
            done, _ = await asyncio.wait(
                waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED
            )
            return any(one.result() for one in done)
        finally:
            for one in waits:
                one.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _news(self, stream: str, *, wait_ms: int) -> bool:
        """Wait for events of its own, new segments or the seal of a stream; False if none came.

        To a reader, marks are no news, nor are events of segments that others own.
        """
        clock = asyncio.get_running_loop().time
        ends, known = clock() + wait_ms / 1_000, self.share.tails[stream]
        own = {ref.segment for ref in self.share.owned if ref.stream == stream}
        after = {one: at if one in own else _BEYOND_ALL for one, at in known.tail.items()}
        while True:
            left_ms = max(0, int((ends - clock()) * 1_000))
            revision = self.share.tails[stream].revision
            tail = self.share.tails[stream] = await self._member.clients[stream].tail(
                after=after, revision=revision, wait_ms=left_ms
            )
            is_new = tail.topology_revision != known.topology_revision or tail.final
            if is_new or any(tail.tail[one] > known.tail[one] for one in own):
                return True
            if tail.revision == revision or not left_ms:
                return False
