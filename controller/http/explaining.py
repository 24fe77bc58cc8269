"""Why the watermarks of a list of streams are where they are, whoever holds them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import urlencode

import httpx
from starlette.types import Message, Scope

from controller.cluster import Ownership, SharedOwnership
from controller.commit.sequencer import Sequencer
from controller.http.forwarding.peers import PassedOn, Peer, Peers
from controller.streams.lifecycle import explain_briefly
from controller.streams.registry import Registry
from controller.streams.stream import StreamState
from tidegauge.errors import ProblemError
from tidegauge.names import StreamName
from tidegauge.wire.streams import BriefExplanation, BriefStreamList, StreamBrief, StreamInfo

_AT_ONCE = 100
"""Streams that are explained while all others wait: some milliseconds."""
_PATIENCE_S = 2.0
"""A list is asked for every few seconds: late controllers are left out."""
_OK = 200
_LIST = "/v1/streams"
_log = logging.getLogger(__name__)
_Explained: TypeAlias = dict[str, BriefExplanation]  # by the id of the stream


@dataclass(frozen=True, slots=True)
class Explaining:
    """Explains the streams of a list: those held here from memory, all others by asking."""

    _registry: Registry
    _sequencer: Sequencer
    _ownership: Ownership
    _peers: Peers | None
    """The way to other controllers; None if there cannot be any."""

    def held(
        self, after: StreamName | None, limit: int, *, of: Callable[[str], object]
    ) -> list[StreamState]:
        """List the streams that are held here for certain."""
        if not self._ownership.lease.is_certain:
            return []
        return self._registry.page(after, limit, of=of)

    async def here(self, states: Sequence[StreamState]) -> _Explained:
        """Explain streams that are held here, some at once."""
        found: _Explained = {}
        for start in range(0, len(states), _AT_ONCE):
            some = states[start : start + _AT_ONCE]
            explained = await self._sequencer.read(
                lambda some=some: [explain_briefly(one) for one in some]  # type: ignore[misc]
            )
            ids = (one.identity.stream_id for one in some)
            found.update(zip(ids, explained, strict=True))
        return found

    async def everywhere(
        self, page: Sequence[StreamInfo | StreamBrief], scope: Scope, *, cursor: str | None
    ) -> _Explained:
        """Explain the streams of a page, as far as their holders answer in time.

        ``scope`` is that of the request: others are asked for their list in the caller's name.
        """
        if not page:
            return {}
        held = [state for one in page if (state := self._find(one)) is not None]
        query = urlencode(
            {"explain": "true", "brief": "true", "limit": max(1, len(page))}
            | ({} if cursor is None else {"cursor": cursor})
        ).encode()
        asked: list[Awaitable[_Explained]] = [self.here(held)]
        if len(held) < len(page):
            listing = {"path": _LIST, "raw_path": _LIST.encode(), "query_string": query}
            asked += [self._ask(peer, {**scope, **listing}) for peer in self._others]
        found: _Explained = {}
        for explained in await asyncio.gather(*asked):
            found |= explained
        return found

    def _find(self, listed: StreamInfo | StreamBrief) -> StreamState | None:
        state = self._registry.find(StreamName.parse(listed.stream))
        is_held = state is not None and state.durable and self._ownership.lease.is_certain
        return state if is_held else None

    @property
    def _others(self) -> list[Peer]:
        ownership = self._ownership
        if not isinstance(ownership, SharedOwnership):
            return []
        own, addresses = ownership.lease.controller, ownership.addresses
        return [Peer(one, at) for one, at in addresses.items() if one != own and at]

    async def _ask(self, peer: Peer, scope: Scope) -> _Explained:
        """Ask another controller for what it holds; nothing if it does not answer."""
        status, body = 0, bytearray()

        async def gather(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            body.extend(message.get("body", b""))

        if self._peers is None:
            return {}
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._peers.ask(peer, PassedOn(scope, b"", _hear_nothing), gather)
        except (TimeoutError, ProblemError, httpx.TransportError) as error:
            reason = str(error) or type(error).__name__
            _log.warning("%s does not explain its streams: %s", peer.address, reason)
            return {}
        if status != _OK:
            return {}
        listed = BriefStreamList.model_validate_json(bytes(body)).streams
        return {one.stream_id: one.explanation for one in listed if one.explanation is not None}


async def _hear_nothing() -> Message:
    """Wait for ever: nobody stops asking before its time is over."""
    nothing: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
    return await nothing
