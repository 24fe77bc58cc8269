"""Who holds what, as far as is known: it saves most calls a look into the database."""

from sqlalchemy import Table

from controller.cluster.membership import Membership
from controller.http.forwarding.peers import Peer
from tidegauge.names import StreamName


class KnownHolders:
    """Holders that were looked up since the membership had notice of a change.

    The race: something moves, and the news comes later than a call. Who is asked then says that
    it is not the holder, and has done nothing; so a wrong entry costs one round trip.
    """

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._notices = membership.notices
        self._peers: dict[tuple[Table, StreamName], Peer] = {}

    def find(self, table: Table, name: StreamName) -> Peer | None:
        """Look a holder up; None if it is not known."""
        if self._notices != self._membership.notices:
            self._notices = self._membership.notices
            self._peers.clear()
        return self._peers.get((table, name))

    def remember(self, table: Table, name: StreamName, peer: Peer, *, seen: int) -> None:
        """Remember a holder, unless there was news since its caller looked for any."""
        if seen == self._notices == self._membership.notices:
            self._peers[table, name] = peer

    def drop(self, table: Table, name: StreamName) -> None:
        """Forget a holder."""
        self._peers.pop((table, name), None)
