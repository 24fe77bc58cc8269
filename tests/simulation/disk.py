"""The database that outlives its controllers: SQLite in memory.

A transaction is sent, begins, is carried out at one moment, and is heard of: a delay before each. Its
controller may be killed or paused at any moment of these. What else happens to it, by seed:

===============  ==========================================================================
fault            what its caller finds
===============  ==========================================================================
``refused``      the database refuses it and others for a moment, since its disk is full
``lost``         the connection breaks, before or behind the commit
``hangs``        no answer for as long as the caller is patient; then as one of the two
``late``         it is carried out, and the answer takes its time
``slow``         one of the delays is longer
``stuck``        one of the delays is perhaps longer than the lease, for all of a controller, or
                 only for its lease
===============  ==========================================================================

But for ``refused``, ``slow``, kills and pauses these are faults of several controllers.
A row of a lease is locked as PostgreSQL would lock it. A crash of the database ends all
connections, and may take renewals of the lease back. A failover may go back to an earlier copy of everything.
"""

import sqlite3
from collections import Counter, deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from math import inf
from typing import Any, Literal, NamedTuple, Protocol

from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

from controller.database import migration
from tests.simulation.choices import Choices
from tests.simulation.kernel import Node, SimulatedLoop, current_node

_DELAY_S = 0.0003
_DISTURBS_S = 0.5
"""Who waits for a transaction for so long cannot be expected to take over meanwhile."""
_LONGEST_DETECTION_S = 0.6
"""So late a controller may stop listening time when an outage begins, and let it go on."""
_COPIES = 8
_COPIED = 0.15
"""Of what a replica may have when it is promoted: how many, and before how many transactions one is made."""
SAID = (
    "disk is full",
    "no room",
    "the connection is lost",
    "no lease",
    "does not",
    "nothing for",
    "on server",
    "taken changes back",
    "lock timeout",
)
"""Parts of what it says where it may refuse; whatever else it says, it should never have to."""
Fate = Literal["well", "refused", "away", "unanswered"]


class UndyingConnection(sqlite3.Connection):
    """One that survives its users, as the database would."""

    def close(self) -> None:
        if self.in_transaction:
            self.rollback()

    def pipeline(self) -> AbstractContextManager[None]:
        return nullcontext()


class LockedError(Exception):
    """A statement has to wait for a lock."""


class Plan(NamedTuple):
    """What will become of a transaction."""

    before_s: float = 0.0
    inside_s: float = 0.0
    behind_s: float = 0.0
    fate: Fate = "well"
    is_sent_whole: bool = False


class Stuck(NamedTuple):
    """What of a controller waits."""

    until_s: float
    part: int
    """Which delay of a transaction: before it begins, inside, or behind it."""
    is_lease_alone: bool


class Session(Protocol):
    """A connection with a transaction."""

    name: str
    locked: str
    """The row of which lease it has locked; empty for none."""
    is_ended: bool
    """Whether the database has ended it."""

    def cut(self) -> None:
        """Let it hear of its end."""


class Disk:
    """The database, its clock, and its notices."""

    def __init__(self, loop: SimulatedLoop, choices: Choices, *, is_shared: bool) -> None:
        self.loop = loop
        self.choices = choices
        self.is_shared = is_shared
        self.connection = sqlite3.connect(
            ":memory:",
            factory=UndyingConnection,
            check_same_thread=False,
            isolation_level=None,
            cached_statements=512,
        )
        self.connection.deserialize(_EMPTY)
        self.intensity = 0.0
        """How often something happens to a transaction: 1 is seldom."""
        self.usual = 1.0
        """Its intensity in this run, but for the rough times and the calm."""
        self.delay_s = _DELAY_S
        """How long each delay of a transaction is, more or less."""
        self.slowness = 0.02
        """How often one of them is much longer."""
        self.full_until = -1.0
        """It refuses all transactions that change something, until this time of the loop."""
        self.outages: list[tuple[float, float]] = []
        """When it did so for long: beginning and end."""
        self.stuck: dict[str, Stuck] = {}
        """By controller."""
        self.disturbed: dict[str, float] = {}
        """By controller, until when something keeps it from its lease, s."""
        self.begun: list[Session] = []
        """Those that are in a transaction."""
        self.crashes = 0
        self.crashed_s = 0.0
        self.server = "1"
        self._former_holders: list[tuple[Any, ...]] = []
        """What the row of the lease was before each change of hands."""
        self.restored = ""
        """The id of the row that a failover has brought back."""
        self.remember: Callable[[], Callable[[], None]] | None = None
        """Makes what forgets all that was told since; None where a failover loses nothing but hands."""
        self.went_back_s = -inf
        """When it went back to a copy last."""
        self._copies: deque[tuple[bytes, Callable[[], None]]] = deque(maxlen=_COPIES)
        self._met: dict[str, float] = {}
        """By controller, when it first connected its memory to the copy."""
        self.transactions = 0
        self.refusals: Counter[int] = Counter()
        """Transactions that it refused, by second."""
        self.troubles: list[str] = []
        self.listeners: list[Callable[[], None]] = []

    def plan_write(self, patience_s: float = inf, *, is_lease: bool = False) -> Plan:
        choices, much, now_s = self.choices, self.intensity, self.loop.time()
        node = current_node()
        delays = [self.delay_s * choices.of("disk").uniform(0.3, 2) for _ in range(3)]
        if choices.strikes("slow", self.slowness * much):
            delays[choices.one("what is slow", [0, 1, 1, 2])] += choices.between(
                "slowness", 0.005, 0.4
            )
        drawn = len(choices.happened)
        if choices.strikes("refused", 0.02 * much):
            end_s = now_s + choices.between("length of fullness", 0.0, 0.4)
            self.full_until = max(self.full_until, end_s)
        fate: Fate = "refused" if now_s <= self.full_until else "well"
        if self.is_shared:
            self._delay_more(delays, patience_s, is_lease=is_lease)
            if choices.strikes("lost", 0.01 * much):
                fate = choices.one("when lost", ["away", "unanswered"])
        is_long = sum(delays) > _DISTURBS_S
        if sum(delays) > patience_s:
            delays, fate = self._cut_short(delays, patience_s)
        self._befall(node, sum(delays), {"asleep": 0.004, "last": 0.006})
        if len(choices.happened) > drawn or is_long:
            self.disturbed[node.place] = now_s + sum(delays)
        return Plan(delays[0], delays[1], delays[2], fate, choices.of("whole").random() < 0.5)

    def _delay_more(self, delays: list[float], patience_s: float, *, is_lease: bool) -> None:
        choices, much = self.choices, self.intensity
        stuck = self.stuck.get(current_node().place)
        if stuck and (is_lease or not stuck.is_lease_alone):
            delays[stuck.part] += max(0.0, stuck.until_s - self.loop.time())
        if choices.strikes("late", 0.008 * much):
            delays[2] += choices.between("lateness", 0.2, 2)
        if choices.strikes("hangs", 0.001 * much):
            delays[choices.of("what hangs").randrange(3)] += patience_s

    def _cut_short(self, delays: list[float], patience_s: float) -> tuple[list[float], Fate]:
        """Break the connection once its patience is over."""
        before_s, inside_s, _ = delays
        if before_s >= patience_s:
            return [patience_s, 0.0, 0.0], "away"
        if before_s + inside_s >= patience_s:
            fate: Fate = self.choices.one("when lost", ["away", "unanswered"])
            return [before_s, patience_s - before_s, 0.0], fate
        return [before_s, inside_s, patience_s - before_s - inside_s], "unanswered"

    def _befall(self, node: Node, length_s: float, chances: dict[str, float]) -> None:
        """Pause or kill a process at some moment of a while."""
        choices = self.choices
        for kind, chance in chances.items():
            if choices.strikes(kind, chance * self.intensity):
                work: Callable[[], None] = node.kill
                if kind != "last":
                    work = partial(node.pause_for, choices.between("length of sleeps", 0.5, 4))
                at_s = choices.between(f"when {kind}", 0, length_s)
                self.loop.call_later(at_s, work, context=self.loop.world.context)

    def plan_thread(self) -> tuple[float, float]:
        """Plan how long a thread takes before it reads or reckons something, and behind that."""
        chance = self.choices.of("threads")
        before_s, behind_s = chance.expovariate(10_000), chance.expovariate(10_000)
        if self.choices.strikes("slow thread", 0.004 * self.intensity):
            behind_s += self.choices.between("slowness of threads", 0.005, 0.4)
        self._befall(current_node(), before_s + behind_s, {"thread asleep": 0.001})
        return before_s, behind_s

    def fails_to_read(self) -> bool:
        """Whether a read fails."""
        if self.choices.strikes("unread", 0.003 * self.intensity):
            self.disturbed[current_node().place] = self.loop.time()
            return True
        return False

    def note_commit(self, name: str) -> None:
        """Record that a session commits: that of a tenure must have its lease."""
        if not self.look("SELECT 1 FROM holder WHERE 'tidegauge ' || id = ?", name):
            self.troubles.append(f"fenced: {current_node()} commits, and holds no more")

    def note(self, what: str) -> None:
        self.transactions += 1
        self.refusals[int(self.loop.time())] += what.endswith("refused")
        self.loop.trace("disk", f"{current_node()} {what}")
        if self.remember is not None and self.choices.of("copies").random() < _COPIED:
            self._copies.append((self.connection.serialize(), self.remember()))

    def meet(self) -> None:
        """Note that a controller has connected its memory."""
        self._met.setdefault(current_node().place, self.loop.time())

    def knows_since(self, place: str, longest_s: float) -> float:
        """Return since when a controller can answer nothing that the latest copy lacks.

        That is once it has connected its memory to the copy, or for as long as a lease can last.
        """
        return self._met.get(place, self.went_back_s + longest_s)

    def notify(self) -> None:
        for told in list(self.listeners):
            self.loop.call_later(self.choices.between("notices", 0.0001, 0.01), told)

    def end_sessions(self, name: str) -> None:
        """End the sessions of a name that are in a transaction."""
        self._end([session for session in self.begun if session.name == name])

    def is_locked(self, lease: str) -> bool:
        """Whether a transaction has locked the row of a lease."""
        return any(session.locked == lease for session in self.begun)

    def keep_holder(self) -> None:
        """Remember the row of the lease, which is about to change hands."""
        self._former_holders += self.look("SELECT * FROM holder")

    def crash(self, *, takes_back: int, is_promoted: bool, loses_hands: int = 0) -> None:
        """End all connections, take renewals back, and perhaps go on as another server.

        That one may lack the latest changes of hands, as an asynchronous replica does, or all that
        is not in a copy.
        """
        self.crashes += 1
        self._end(self.begun)
        if is_promoted and self._copies:
            self._go_back()
        else:
            self.connection.execute(
                "UPDATE holder SET number = max(0, number - ?)", (takes_back,)
            )
        if is_promoted:
            self.server = f"{self.crashes + 1}"
            lost = self._former_holders[-loses_hands:] if loses_hands else []
            if lost:
                self.restored = lost[0][1]
                self.connection.execute("DELETE FROM holder")
                self.connection.execute(
                    "INSERT INTO holder VALUES (?, ?, ?, ?, ?, ?, ?)", lost[0]
                )
        self.crashed_s = self.loop.time()

    def _go_back(self) -> None:
        """Go on with an earlier copy of everything; whoever remembers more forgets it."""
        copied, forget = self.choices.one("copies", self._copies)
        self.connection.deserialize(copied)
        forget()
        self._copies.clear()
        self._former_holders.clear()
        self._met.clear()
        ((self.restored,),) = self.look("SELECT id FROM holder")
        self.went_back_s = self.loop.time()
        self.loop.trace("goes back", self.restored)

    def _end(self, sessions: list[Session]) -> None:
        for session in sessions:
            if not session.is_ended:
                session.is_ended, session.locked = True, ""
                session.cut()

    def refuse_for(self, length_s: float) -> None:
        """Refuse all that changes something, for long."""
        now_s = self.loop.time()
        begin_s = max([now_s, *(end for _, end in self.outages)])  # none counts twice
        self.full_until = now_s + length_s
        if self.full_until > begin_s:
            self.outages.append((begin_s, self.full_until))

    def outage_s(self) -> float:
        """Return how long it refused everything up to now, as far as controllers must know it."""
        now_s = self.loop.time()
        lengths = (min(end, now_s) - begin for begin, end in self.outages)
        return sum(max(0.0, length - _LONGEST_DETECTION_S) for length in lengths)

    def calm(self) -> None:
        """Let nothing happen any more."""
        self.intensity, self.delay_s = 0.0, _DELAY_S
        self.full_until = min(self.full_until, self.loop.time())
        now_s = self.loop.time()
        self.outages = [(min(begin, now_s), min(end, now_s)) for begin, end in self.outages]
        self.stuck.clear()

    def look(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return self.connection.execute(query, values).fetchall()


def _empty_database() -> bytes:
    """Make the schema."""
    connection = sqlite3.connect(":memory:", factory=UndyingConnection, isolation_level=None)
    engine = create_engine("sqlite://", creator=lambda: connection, poolclass=StaticPool)
    with engine.begin() as opened:
        migration.upgrade(opened, "the simulation")
        opened.exec_driver_sql("INSERT INTO holder VALUES (1, 'nobody', '', 0, 0, TRUE, '1')")
    return connection.serialize()


_EMPTY = _empty_database()
"""Made once, and not in a run: its identity is random."""
