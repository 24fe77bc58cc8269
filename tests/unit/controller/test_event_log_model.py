"""The log against a plain list of events a segment, over compaction, truncation and restarts."""

import asyncio
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from controller.background.purging import Pace, Purger
from controller.log import compaction
from controller.log.compaction import Compactor
from controller.streams.history import start_of
from controller.streams.truncation import truncate_at_cut
from tests.conftest import NewDatabase
from tests.effort import Effort
from tests.service.log_api import Event
from tests.service.log_service import LogService, serving
from tidegauge.errors import (
    SequenceGapError,
    TruncatedError,
    WriterFencedError,
)
from tidegauge.names import key_hash

SEGMENTS = 2
WRITERS = ("v", "w")
events = st.lists(
    st.tuples(
        st.sampled_from("abcdef"),
        st.none() | st.integers(-50, 50),
        st.binary(max_size=5),
    ),
    max_size=4,
)
writers = st.sampled_from(WRITERS)
segments = st.integers(0, SEGMENTS - 1)


class LogMachine(RuleBasedStateMachine):
    """Operations change the service and the model alike; compaction only the service."""

    def new_database(self, directory: Path) -> str:
        """Make a database of the kind that is tested."""
        raise NotImplementedError

    @initialize()
    def start(self) -> None:
        self.runner = asyncio.Runner()
        self.directory = tempfile.TemporaryDirectory()
        self.database_url = self.new_database(Path(self.directory.name))
        self.stack = AsyncExitStack()
        self.model: dict[int, list[Event]] = {number: [] for number in range(SEGMENTS)}
        self.first = dict.fromkeys(range(SEGMENTS), 0)
        self.incarnations = dict.fromkeys(WRITERS, 0)
        self.sequences: dict[tuple[str, int], int] = {}
        self.ends: dict[tuple[str, int], int] = {}
        self.answers: dict[str, tuple[list[Event], dict[int, int]]] = {}
        self.log = self._opened()
        self.runner.run(self.log.create(segments=SEGMENTS))
        for writer in WRITERS:
            self.register(writer)

    def _opened(self) -> LogService:
        return self.runner.run(self.stack.enter_async_context(serving(self.database_url)))

    def register(self, writer: str) -> None:
        registration = self.runner.run(self.log.register(writer))
        self.incarnations[writer] += 1
        assert registration.incarnation == self.incarnations[writer]
        appended = {
            number: self.ends[writer, number]
            for number in range(SEGMENTS)
            if self.ends.get((writer, number))
        }
        position = {number: count for number, count in registration.position.items() if count}
        assert position == appended
        for number in range(SEGMENTS):
            self.sequences[writer, number] = 0

    @rule(writer=writers)
    def restart_the_writer(self, writer: str) -> None:
        self.register(writer)

    @rule(writer=writers, segment=segments, some=events)
    def append(self, writer: str, segment: int, some: list[Event]) -> None:
        sequence = self.sequences[writer, segment] + 1
        incarnation = self.incarnations[writer]
        outcome = self.runner.run(self.log.append(writer, incarnation, segment, sequence, some))
        self.model[segment] += some
        self.sequences[writer, segment] = sequence
        self.ends[writer, segment] = len(self.model[segment])
        assert outcome == (len(self.model[segment]), sequence, False)

    @rule(writer=writers, segment=segments, back=st.integers(0, 2), some=events)
    def repeat(self, writer: str, segment: int, back: int, some: list[Event]) -> None:
        last = self.sequences[writer, segment]
        if last - back >= 1:
            outcome = self.runner.run(
                self.log.append(writer, self.incarnations[writer], segment, last - back, some)
            )
            assert outcome == (self.ends[writer, segment], last, True)

    @rule(writer=writers, segment=segments, ahead=st.integers(2, 4), some=events)
    def overtake(self, writer: str, segment: int, ahead: int, some: list[Event]) -> None:
        last = self.sequences[writer, segment]
        with pytest.raises(SequenceGapError) as refused:
            self.runner.run(
                self.log.append(writer, self.incarnations[writer], segment, last + ahead, some)
            )
        assert refused.value.expected_sequence == last + 1

    @rule(writer=writers, segment=segments, some=events)
    def come_back_as_a_zombie(self, writer: str, segment: int, some: list[Event]) -> None:
        with pytest.raises(WriterFencedError):
            self.runner.run(
                self.log.append(writer, self.incarnations[writer] - 1, segment, 1, some)
            )

    @rule(key=st.sampled_from("xyz"), some=events)
    def append_by_key(self, key: str, some: list[Event]) -> None:
        if key not in self.answers:
            routed = [(int(key_hash(event[0]) * SEGMENTS), event) for event in some]
            for number, event in routed:
                self.model[number].append(event)
            position = {number: len(self.model[number]) for number, _ in routed}
            self.answers[key] = some, position
        stored, position = self.answers[key]
        assert self.runner.run(self.log.append_by_key(stored, key)) == position

    @rule()
    def restart_the_service(self) -> None:
        self.runner.run(self.stack.aclose())
        self.log = self._opened()

    @rule()
    def compact(self) -> None:
        state = self.log.state
        tails = state.published.tails
        assert tails is not None
        compactor = Compactor(self.log.parts.database)
        with patch.object(compaction, "_FEWEST", 3):
            self.runner.run(compactor.compact(state.identity.key, tails))
        for time in range(-51, 52, 6):
            self.seek(time)

    @rule(time=st.integers(-51, 51))
    def look_for_a_time(self, time: int) -> None:
        self.seek(time)

    def seek(self, time: int) -> None:
        start, exact = self.runner.run(start_of(self.log.parts.database, self.log.state, time))
        assert exact
        assert start is not None
        for number, stored in self.model.items():
            first = self.first[number]
            reaching = [
                at for at, (_, own, _) in enumerate(stored) if own is not None and own >= time
            ]
            left = next((at for at in reaching if at >= first), len(stored))
            if reaching and reaching[0] < first:  # it may, or may not, be forgotten that it did
                assert first <= start[number] <= left
            else:
                assert start[number] == left

    @rule(parts=st.tuples(*[st.floats(0, 1)] * SEGMENTS))
    def truncate(self, parts: tuple[float, ...]) -> None:
        cut = {number: int(part * len(self.model[number])) for number, part in enumerate(parts)}
        self.runner.run(
            truncate_at_cut(self.log.parts.database, self.log.state, cut, force=False)
        )
        self.first = {number: max(self.first[number], offset) for number, offset in cut.items()}

    @rule()
    def purge(self) -> None:
        parts = self.log.parts
        purger = Purger(parts.database, parts.registry, parts.is_certain, Pace())
        while self.runner.run(purger._purge_truncated()):
            pass

    @rule(segment=segments, part=st.floats(0, 1))
    def read(self, segment: int, part: float) -> None:
        start = int(part * len(self.model[segment]))
        if start < self.first[segment]:
            with pytest.raises(TruncatedError) as refused:
                self.runner.run(self.log.read(segment, start))
            assert refused.value.first_offset == self.first[segment]
            return
        first, found = self.runner.run(self.log.read(segment, start))
        assert first <= start
        assert found == self.model[segment][first:]

    @invariant()
    def tails_are_the_lengths(self) -> None:
        lengths = {number: len(stored) for number, stored in self.model.items()}
        assert self.log.state.published.tails == lengths
        assert self.log.state.published.first_cut == self.first

    def teardown(self) -> None:
        for segment, stored in self.model.items():
            first, found = self.runner.run(self.log.read(segment, self.first[segment]))
            assert found == stored[first:]
        self.runner.run(self.stack.aclose())
        self.runner.close()
        self.directory.cleanup()


def test_the_log_does_what_a_list_would(new_database: NewDatabase, effort: Effort) -> None:
    class Machine(LogMachine):
        def new_database(self, directory: Path) -> str:
            return new_database(directory)

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=effort.times("runs of 40 operations", short=4, long=200),
            stateful_step_count=40,
        ),
    )
