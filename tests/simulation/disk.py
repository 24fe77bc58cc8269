"""The database that outlives its controllers: SQLite in memory.

A transaction runs whole at one moment. What happens to it, by seed:

===============  ==========================================================================
fault            what its caller finds
===============  ==========================================================================
``refused``      the database refuses it and others for a moment, since its disk is full
``away``         the connection breaks before the commit (several controllers)
``unanswered``   the connection breaks behind the commit (several controllers)
``hangs``        no answer for as long as the caller is patient; then as one of the two
``last``         its controller dies, before or behind the commit
``asleep``       its controller is paused, perhaps for longer than its lease, and then it runs
``stuck``        no answer to anything that its controller writes, perhaps for longer than its
                 lease, and then all of that runs (several controllers)
``slow``         it takes longer
===============  ==========================================================================
"""

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, Literal, NamedTuple

from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

from controller.database import migration
from tests.simulation import clocks
from tests.simulation.choices import Choices
from tests.simulation.kernel import SimulatedLoop, current_node

_WRITE_S = 0.0006
_READ_S = 0.0002
SAID = (
    "disk is full",
    "no room",
    "the connection is lost",
    "no lease",
    "does not",
    "nothing for",
)
"""Parts of what it says where it may refuse; whatever else it says, it should never have to."""
Fate = Literal["well", "refused", "away", "unanswered", "last before", "last behind"]


class UndyingConnection(sqlite3.Connection):
    """One that survives its users, as the database would."""

    def close(self) -> None:
        if self.in_transaction:
            self.rollback()

    def pipeline(self) -> AbstractContextManager[None]:
        return nullcontext()


class Plan(NamedTuple):
    """What will become of a transaction."""

    delay_s: float
    fate: Fate = "well"


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
        self.connection.deserialize(_empty_database())
        for name, arguments, value in (
            ("clock_timestamp", 0, lambda: float(clocks.true_ms())),
            ("greatest", 2, max),
            ("nextval", 1, self._next_value),
        ):
            self.connection.create_function(name, arguments, value)
        self.intensity = 0.0
        """How often something happens to a transaction: 1 is seldom."""
        self.usual = 1.0
        """Its intensity in this run, but for the rough times and the calm."""
        self.full_until = -1.0
        """It refuses all transactions that change something, until this time of the loop."""
        self.stuck_until: dict[str, float] = {}
        """Controllers whose transactions wait, and how long, s."""
        self.transactions = 0
        self._values: dict[str, int] = {}
        self.listeners: list[Callable[[], None]] = []

    def plan_write(self, patience_s: float) -> Plan:
        choices, much = self.choices, self.intensity
        delay_s = _WRITE_S * choices.of("disk").uniform(0.5, 2)
        if choices.strikes("slow", 0.02 * much):
            delay_s += choices.between("slowness", 0.005, 0.4)
        if choices.strikes("asleep", 0.004 * much):
            current_node().pause_for(choices.between("length of sleeps", 0.5, 4))
        now_s = self.loop.time()
        if choices.strikes("refused", 0.02 * much):
            self.full_until = now_s + choices.between("length of fullness", 0.0, 0.4)
        if now_s <= self.full_until:
            return Plan(delay_s, "refused")
        if choices.strikes("last", 0.008 * much):
            return Plan(delay_s, choices.one("last when", ["last before", "last behind"]))
        if self.is_shared:
            stuck_s = self.stuck_until.get(current_node().place, 0.0) - now_s
            if 0 < stuck_s < patience_s:
                return Plan(stuck_s + delay_s)
            outcome: Fate = choices.one("when lost", ["away", "unanswered"])
            if choices.strikes("hangs", 0.001 * much):
                return Plan(patience_s, outcome)
            if choices.strikes("lost", 0.01 * much):
                return Plan(delay_s, outcome)
        return Plan(delay_s)

    def plan_read(self) -> Plan:
        delay_s = _READ_S * self.choices.of("disk").uniform(0.5, 2)
        if self.choices.strikes("unread", 0.003 * self.intensity):
            return Plan(delay_s, "away" if self.is_shared else "refused")
        return Plan(delay_s)

    def note(self, what: str) -> None:
        self.transactions += 1
        if current_node().is_dead:
            msg = f"{current_node()} writes though it is dead"
            raise AssertionError(msg)
        self.loop.trace("disk", f"{current_node()} {what}")

    def notify(self) -> None:
        for told in list(self.listeners):
            self.loop.call_later(self.choices.between("notices", 0.0001, 0.01), told)

    def look(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return self.connection.execute(query, values).fetchall()

    def _next_value(self, sequence: str) -> int:
        self._values[sequence] = value = self._values.get(sequence, 0) + 1
        return value


@cache
def _empty_database() -> bytes:
    """Make the schema once in a process."""
    connection = sqlite3.connect(":memory:", factory=UndyingConnection, isolation_level=None)
    engine = create_engine("sqlite://", creator=lambda: connection, poolclass=StaticPool)
    with engine.begin() as opened:
        migration.upgrade(opened, "the simulation")
    return connection.serialize()
