"""Any controller takes any call: what it does not hold itself, it passes on to the holder.

While something has no holder, calls about it wait: a little longer than a lease lasts, since by
then another controller has taken it.
"""

import asyncio
import re
from hashlib import blake2b

from sqlalchemy import Table
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controller.cluster import SharedOwnership
from controller.cluster.membership import Membership
from controller.http.forwarding.peers import (
    ASKED_AGAIN,
    NOT_HOLDER,
    ROUTE,
    PassedOn,
    Peer,
    Peers,
    is_passed_on,
    says_moved,
)
from controller.http.messages.plain import read_body
from controller.http.messages.problems import send_problem, write_problem
from controller.http.messages.scopes import log_lost
from controller.schema import reader_groups, streams
from tidegauge.errors import OutcomeUnknownError, ProblemError, UnavailableError
from tidegauge.names import NAME_PATTERN, StreamName

_NAME = NAME_PATTERN.strip("^$")
_PLACE = re.compile(rf"/v1/(streams|reader-groups)/({_NAME})/({_NAME})(/.*)?")
"""Of names alone: what is none is no matter for the database, and refused here."""
_TABLES = {"streams": streams, "reader-groups": reader_groups}
_WAIT_MS = re.compile(rb"(?<![^&])wait_ms=(\d{1,19})(?![^&])")
"""How long a call waits for news, where it is written plainly, as all clients do."""
_LOOK_MS = 100
"""Between two searches for a holder, unless there is news: a small part of a lease."""
_CLOSING = "the service is shutting down"
_CUT_OFF = "the holder does nothing, and this controller hears nothing from the database"
NOBODY = "no controller holds it at the moment"


class KnownHolders:
    """Holders that were found since there was news of any: it saves most calls another search.

    The race: something moves, and the news comes later than a call. The controller that is asked
    then says that it is not the holder, and has done nothing; so a wrong entry costs one round
    trip.
    """

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._notices = membership.notices
        self._peers: dict[tuple[Table, StreamName], Peer] = {}

    def find(self, table: Table, name: StreamName) -> Peer | None:
        """Return a holder; None if it is not known."""
        if self._notices != self._membership.notices:
            self._notices = self._membership.notices
            self._peers.clear()
        return self._peers.get((table, name))

    def remember(self, table: Table, name: StreamName, peer: Peer, *, seen: int) -> None:
        """Remember a holder, unless there was news since its caller last checked."""
        if seen == self._notices == self._membership.notices:
            self._peers[table, name] = peer

    def drop(self, table: Table, name: StreamName) -> None:
        """Forget a holder."""
        self._peers.pop((table, name), None)


class Forwarding:
    """Lets an application answer for what this controller holds, and others for the rest."""

    def __init__(
        self, app: ASGIApp, ownership: SharedOwnership, peers: Peers, *, max_body_bytes: int
    ) -> None:
        self.app = app
        self.peers = peers
        self.max_body_bytes = max_body_bytes
        self._ownership = ownership
        self._known = KnownHolders(ownership.membership)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, here or elsewhere."""
        place = _PLACE.fullmatch(scope["path"])
        if place is None:
            await self.app(scope, receive, send)
            return
        table, name = _TABLES[place[1]], StreamName(place[2], place[3])
        if self.holds(table, name) and not _can_ask_again(scope):
            await self.app(scope, receive, send)
            return
        creates = scope["method"] == "PUT" and place[4] is None
        try:
            request = PassedOn(scope, await read_body(receive, self.max_body_bytes), receive)
            await self._answer(table, name, request, send, creates=creates)
        except UnavailableError as error:
            await refuse(error, send)
        except OutcomeUnknownError as error:  # the holder may be gone before it logged it
            log_lost(scope)
            await send_problem(send, error)
        except ProblemError as error:
            await send_problem(send, error)

    async def _answer(
        self, table: Table, name: StreamName, request: PassedOn, send: Send, *, creates: bool
    ) -> None:
        """Answer as soon as somebody can.

        The race: what was found moves before it is asked, or while it lets the call wait for
        news. Then whoever was asked says so, and has done nothing. A call that waits is asked again
        for no more than the rest of its time, and in vain for only so long beyond that.
        """
        scope, clock = request.scope, asyncio.get_running_loop().time
        was_passed_on = anew = is_passed_on(scope)
        waits_ms = _WAIT_MS.findall(scope["query_string"])
        ends = clock() + (int(waits_ms[-1]) / 1_000 if waits_ms else 0.0)
        while True:
            peer = await self.find(table, name, creates=creates, anew=anew)
            if peer is None:
                is_answered = await self._ask_here(request, send)
            elif was_passed_on:
                raise UnavailableError(NOBODY)
            else:
                is_answered = await self.peers.ask(peer, request, send)
            if is_answered:
                return
            await self.await_news(peer, deadline=self.deadline(since=min(clock(), ends)))
            rest = b"wait_ms=%d" % max(0, int((ends - clock()) * 1_000))
            scope["query_string"] = _WAIT_MS.sub(rest, scope["query_string"])
            anew = True

    async def _ask_here(self, request: PassedOn, send: Send) -> bool:
        """Answer what is held here; False if it moved away before it was answered."""
        if not _can_ask_again(request.scope):
            await self.app(request.scope, request.replay(), send)
            return True
        moved = False

        async def send_unless_moved(message: Message) -> None:
            nonlocal moved
            moved = moved or says_moved(message)
            if not moved:
                await send(message)

        await self.app(request.scope, request.replay(), send_unless_moved)
        if moved:
            request.scope.pop(ROUTE, None)  # another controller answers
        return not moved

    def holds(self, table: Table, name: StreamName) -> bool:
        """Return whether this controller holds something, for certain."""
        if not self._ownership.lease.is_certain:
            return False
        if table is streams:
            return self._ownership.registry.find(name) is not None
        return name in self._ownership.groups

    def deadline(self, *, since: float | None = None) -> float:
        """Return until when to ask in vain: longer than the lease of a lost controller lasts."""
        since = asyncio.get_running_loop().time() if since is None else since
        return since + 2 * self._timeout_s

    async def await_news(self, asked: Peer | None, *, deadline: float) -> None:
        """Wait a moment, after a controller did nothing, until it makes sense to ask again.

        The race: the database hangs, so that the holder, no longer sure of its lease, has waited
        for it already. This controller would wait as long, if it is not sure of its own. Raises
        `UnavailableError` if it was asked for long enough, or the service is shutting down.
        """
        left_s = deadline - asyncio.get_running_loop().time()
        if left_s < self._timeout_s and not self._ownership.lease.is_certain:
            raise UnavailableError(_CUT_OFF)
        if left_s < 0 and asked is not None:
            reason = f"the controller at {asked.address}, which holds it, is not reached"
            raise UnavailableError(reason)
        await self._look_again(left_s, self._ownership.membership.notices)

    async def find(
        self, table: Table, name: StreamName, *, creates: bool = False, anew: bool = False
    ) -> Peer | None:
        """Return who answers about something; None for this controller.

        What is not there is answered for here; what is to be created, by one controller for each
        name, so that two callers that create it at once do not race. Unless it is to be found
        ``anew``, the holder that was found before is good enough. Raises `UnavailableError` if
        nobody holds it for too long.
        """
        membership, clock = self._ownership.membership, asyncio.get_running_loop().time
        deadline = clock() + self._timeout_s
        while not self.holds(table, name):
            known = None if anew else self._known.find(table, name)
            if known is not None:
                return known
            seen = membership.notices
            found = await self._ownership.find(table, name)
            if found is None:
                self._known.drop(table, name)
                held = self._ownership.registry if table is streams else self._ownership.groups
                held.relocations.end(name)
                return self._creator(name) if creates else None
            if found.controller != membership.controller and found.address:
                peer = Peer(found.controller, found.address)
                self._known.remember(table, name, peer, seen=seen)
                return peer
            await self._look_again(deadline - clock(), seen)
        return None

    async def _look_again(self, left_s: float, seen: int) -> None:
        """Wait for news of holders, or a moment, while there is time."""
        if left_s <= 0:
            raise UnavailableError(NOBODY)
        if self._ownership.closing.is_set():
            raise UnavailableError(_CLOSING)
        wait_ms = min(int(left_s * 1_000) + 1, _LOOK_MS)
        await self._ownership.membership.await_news(seen, wait_ms=wait_ms)

    @property
    def _timeout_s(self) -> float:
        return self._ownership.membership.timeout_ms / 1_000

    def _creator(self, name: StreamName) -> Peer | None:
        """Return the controller that creates what has this name; all controllers choose the same."""
        addresses = self._ownership.addresses

        def weight(controller: int) -> bytes:
            return blake2b(f"{controller} {name}".encode(), digest_size=8).digest()

        chosen = max(addresses, key=weight, default=self._ownership.membership.controller)
        if chosen == self._ownership.membership.controller or not addresses[chosen]:
            return None
        return Peer(chosen, addresses[chosen])


def _can_ask_again(scope: Scope) -> bool:
    """Return whether this controller may answer, and ask the next holder should it hold no more."""
    return scope["method"] in ASKED_AGAIN and not is_passed_on(scope)


async def refuse(error: UnavailableError, send: Send) -> None:
    """Answer that nothing was done; the controller that passed the request on may ask another one."""
    status, headers, body = write_problem(error)
    headers = [*headers, (NOT_HOLDER, b"1")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
