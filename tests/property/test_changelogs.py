"""What a changelog stores is what there is, whatever fails, restarts, or is compacted meanwhile."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.database import Database
from tests.databases import open_database
from tests.property.scripts import mixed
from tests.property.stored_streams import (
    SLOTS,
    Act,
    Fate,
    House,
    Turn,
    empty,
    make_settings,
)
from tidegauge.aggregation.aggregator import Aggregator
from tidegauge.aggregation.writers import Now
from tidegauge.errors import ProblemError

WRITERS = ["a", "b", "c"]


@dataclass(frozen=True)
class Note:
    """A writer reports, later or not than before."""

    writer: str
    rise: int
    position: dict[int, int]

    def run(self, core: Aggregator, now: Now) -> None:
        known = self.writer in core
        incarnation = core.incarnation(self.writer) or None if known else None
        time = (core.watermark or 0) + self.rise
        with suppress(ProblemError):
            core.note_time(self.writer, time, self.position, incarnation=incarnation, now=now)


@dataclass(frozen=True)
class Register:
    """A writer starts again."""

    writer: str
    appended: dict[int, int]

    def run(self, core: Aggregator, now: Now) -> None:
        core.register(self.writer, appended=self.appended, now=now)


@dataclass(frozen=True)
class Go:
    """A writer leaves, or is expired."""

    writer: str
    leaves: bool

    def run(self, core: Aggregator, now: Now) -> None:
        if self.writer not in core:
            return
        if self.leaves:
            incarnation = core.incarnation(self.writer) or None
            core.leave(self.writer, incarnation=incarnation, now=now)
        else:
            core.expire(self.writer, now=now)


@dataclass(frozen=True)
class Change:
    """Other settings: who is silent expires sooner, who is gone is forgotten sooner."""

    timeout_ms: int | None
    retention_ms: int | None
    resolution_ms: int

    def run(self, core: Aggregator, now: Now) -> None:  # noqa: ARG002 (an act)
        core.change_settings(
            make_settings(
                aggregation_timeout_ms=self.timeout_ms,
                writer_retention_ms=self.retention_ms,
                mark_resolution_ms=self.resolution_ms,
            )
        )


RESTART = "restart"
_writers = st.sampled_from(WRITERS)
_positions = st.dictionaries(st.integers(0, 1), st.integers(0, 9), max_size=2)
_acts: st.SearchStrategy[Act] = mixed(
    (24, st.builds(Note, _writers, st.integers(0, 5), _positions)),
    (4, st.builds(Register, _writers, _positions)),
    (4, st.builds(Go, _writers, st.booleans())),
    (
        2,
        st.builds(
            Change,
            timeout_ms=st.sampled_from([None, 2]),
            retention_ms=st.sampled_from([None, 0, 2]),
            resolution_ms=st.sampled_from([0, 0, 3]),
        ),
    ),
)
_slots = st.integers(0, SLOTS - 1)
_sometimes = st.sampled_from([[]] * 4 + [[slot] for slot in range(SLOTS)])
_seldom = st.sampled_from([[]] * 20 + [[slot] for slot in range(SLOTS)])
_fates: st.SearchStrategy[Fate] = st.sampled_from(
    ["stored"] * 6 + ["lost", "stored, but not answered"]
)
_turns = st.builds(
    Turn,
    acts=st.lists(st.tuples(_slots, st.lists(_acts, min_size=1, max_size=4)), max_size=4),
    compacted=_sometimes,
    deleted=_seldom,
    fate=_fates,
)
_waits = st.sampled_from([0, 0, 1, 6])
_steps = mixed((9, st.tuples(_turns, _waits)), (1, st.just(RESTART)))
_stories = st.integers(1, 30).flatmap(
    lambda count: st.lists(_steps, min_size=count, max_size=count)
)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A real file for all examples, each of which begins with empty tables."""
    directory = tmp_path_factory.mktemp("changelog")
    database = open_database(f"sqlite:///{directory / 'tidegauge.db'}")
    yield database
    database.close()


async def _live_through(house: House, story: Sequence[tuple[Turn, int] | str]) -> None:
    await house.database.change(empty)
    await house.start()
    try:
        for one in story:
            await (house.restart() if isinstance(one, str) else house.take(*one))
        await house.restart()
        await house.check()
    finally:
        await house.sequencer.close()


@settings(max_examples=settings().max_examples // 2)
@given(story=_stories, restated=st.sampled_from([1, 2, 256]))
def test_what_is_stored_is_what_there_is(
    database: Database,
    story: Sequence[tuple[Turn, int] | str],
    restated: int,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidegauge.aggregation.changelog._RESTATED", restated)
        asyncio.run(_live_through(House(database), story))
