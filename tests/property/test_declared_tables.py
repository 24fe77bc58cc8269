"""Queries of one job do what they like to a table, and whoever is misled is told."""

from contextlib import suppress

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.declared_table import REFUSED, Checkpoint, DiesError, Query, Table
from tidegauge.tables.history import commit_in_effect

_NAMES = st.sampled_from(["one", "two", "three", "of another job"])
_TIMES = st.lists(st.integers(0, 300), max_size=3)
_BOUNDS = st.integers(0, 300)
_COMMITS_READ = 15
"""What is on the way for longer is seen by its query, and no more by readers."""


class Queries(RuleBasedStateMachine):
    """The laws are asserted by the table at each commit, and by the query behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.table = Table()
        self.queries = {
            name: Query(self.table, name, job="k" if name == "of another job" else "j")
            for name in ("one", "two", "three", "of another job")
        }
        self.planned_at: dict[str, int] = {}
        self.backups: dict[str, Checkpoint] = {}

    @initialize(times=_TIMES, bound=_BOUNDS)
    def begin(self, times: list[int], bound: int) -> None:
        self.table.append()
        self.queries["one"].batch(*times, bound=bound)

    @rule(name=_NAMES, times=_TIMES, bound=_BOUNDS, take_over=st.booleans())
    def plan(self, name: str, times: list[int], bound: int, *, take_over: bool) -> None:
        if self._knows_time(name):
            with suppress(*REFUSED, DiesError):
                self.queries[name].plan(*times, bound=bound, take_over=take_over)
                self.planned_at[name] = self.table.number

    @rule(name=_NAMES)
    def commit(self, name: str) -> None:
        query = self.queries[name]
        if query.is_planned and self.table.number <= self.planned_at[name] + _COMMITS_READ:
            with suppress(*REFUSED, DiesError):
                query.commit()

    @rule(name=_NAMES, times=_TIMES, bound=_BOUNDS, take_over=st.booleans())
    def batch(self, name: str, times: list[int], bound: int, *, take_over: bool) -> None:
        self.plan(name, times, bound, take_over=take_over)
        self.commit(name)

    @rule()
    def the_next_driver_dies(self) -> None:
        self.table.dies = True

    @rule(name=_NAMES)
    def stop(self, name: str) -> None:
        self.queries[name].stop()

    @rule(name=_NAMES)
    def back_up(self, name: str) -> None:
        self.backups[name] = self.queries[name].backup()

    @rule(name=_NAMES)
    def recover(self, name: str) -> None:
        if name in self.backups:
            self.queries[name].recover(self.backups[name])

    @rule()
    def others_append(self) -> None:
        self.table.append()

    @precondition(lambda self: self._is_quiet() and self._is_remembered())
    @rule()
    def maintain(self) -> None:
        self.table.truncate()
        self.backups.clear()

    @precondition(lambda self: self._is_quiet())
    @rule()
    def restore(self) -> None:
        self.table.restore()

    @precondition(lambda self: self._is_quiet())
    @rule(versions=st.integers(1, 5))
    def roll_back(self, versions: int) -> None:
        kept = self.table.commits[:-versions]
        if commit_in_effect(reversed(kept)) is not None:
            self.table.roll_back(kept[-1].version)

    def _is_quiet(self) -> bool:
        return not any(query.is_planned for query in self.queries.values())

    def _is_remembered(self) -> bool:
        """Whether the notes have not ended, and who said the newest one remembers it.

        Nobody could know otherwise what is no longer kept.
        """
        newest = next((commit for commit in reversed(self.table.commits) if commit.note), None)
        if newest is None or newest.note is None or self.table.reached is None:
            return False
        memory = self.queries[str(newest.note.query)].memory
        return memory is not None and memory.version == newest.version

    def _knows_time(self, name: str) -> bool:
        """Whether the query can know the time that was reached, by a note or by its memory."""
        is_lost = (
            commit_in_effect(reversed(self.table.commits)) is None
            and self.table.reached is not None
        )
        return not is_lost or self.queries[name].checkpoint.query == self.table.declarer


TestQueries = Queries.TestCase
TestQueries.settings = settings(max_examples=settings().max_examples, stateful_step_count=30)
