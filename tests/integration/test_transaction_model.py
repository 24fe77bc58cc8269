"""Transactions against plain lists of events, over scaling, restarts and faults."""

import asyncio
import tempfile
from contextlib import AsyncExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from controller.log.staging import StagedEvents
from controller.streams import lifecycle
from controller.streams.transactions import TransactionCalls
from tests.conftest import NewDatabase
from tests.effort import Effort
from tests.integration.log_api import Event
from tests.integration.log_service import LogService, batch_of, serving
from tidegauge.errors import TransactionFinishedError, UnavailableError
from tidegauge.names import key_hash
from tidegauge.topology import KeyRange
from tidegauge.wire.streams import ScaleStream
from tidegauge.wire.transactions import BeginTransaction, TransactionState

pytestmark = pytest.mark.about_sql

WRITERS = ("v", "w")
events = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.none() | st.integers(0, 9), st.binary(max_size=3)),
    max_size=4,
)
writers = st.sampled_from(WRITERS)
some = st.integers(0, 1_000)


class Known:
    """What the model knows of one transaction."""

    def __init__(self, writer: str) -> None:
        self.writer = writer
        self.staged: list[Event] = []
        self.sequences: dict[int, int] = {}
        self.state: TransactionState = "open"
        self.position: dict[int, int] | None = None


class TransactionMachine(RuleBasedStateMachine):
    """Operations change the service and the model alike; faults change only the service."""

    def new_database(self, directory: Path) -> str:
        """Make a database of the kind that is tested."""
        raise NotImplementedError

    @initialize()
    def start(self) -> None:
        self.runner = asyncio.Runner()
        self.directory = tempfile.TemporaryDirectory()
        self.database_url = self.new_database(Path(self.directory.name))
        self.stack = AsyncExitStack()
        self.incarnations = dict.fromkeys(WRITERS, 0)
        self.known: dict[str, Known] = {}
        self.model: dict[int, list[Event]] = {0: [], 1: []}
        self.growing = {0: KeyRange(0.0, 0.5), 1: KeyRange(0.5, 1.0)}
        self.appends = 0
        self.log = self._opened()
        self.runner.run(self.log.create(segments=2))
        for writer in WRITERS:
            self.register(writer)

    def _opened(self) -> LogService:
        return self.runner.run(self.stack.enter_async_context(serving(self.database_url)))

    @property
    def calls(self) -> TransactionCalls:
        parts = self.log.parts
        return TransactionCalls(parts.sequencer, parts.database, self.log.state)

    def pick(self, number: int, *, is_open: bool) -> str | None:
        ids = [one for one, it in self.known.items() if (it.state == "open") is is_open]
        return ids[number % len(ids)] if ids else None

    @rule(writer=writers)
    def begin(self, writer: str) -> None:
        wanted = BeginTransaction(writer=writer, incarnation=self.incarnations[writer])
        self.known[self.runner.run(self.calls.begin(wanted)).id] = Known(writer)

    @rule(number=some, to=some, staged=events, again=st.booleans())
    def stage(self, number: int, to: int, staged: list[Event], *, again: bool) -> None:
        one = self.pick(number, is_open=True)
        if one is None:
            return
        it, segment = self.known[one], to % len(self.model)  # sealed ones, too
        last = it.sequences.get(segment, 0)
        sequence = last if again and last else last + 1
        stage = self.calls.stage(
            one, StagedEvents.of(batch_of(staged)), segment=segment, sequence=sequence
        )
        assert self.runner.run(stage) == (sequence, sequence == last)
        if sequence > last:
            it.staged += staged
            it.sequences[segment] = sequence

    @rule(number=some, is_lost=st.booleans())
    def commit(self, number: int, *, is_lost: bool) -> None:
        one = self.pick(number, is_open=True)
        if one is None:
            return
        if is_lost:
            self.log.fail_next_write()
            with pytest.raises(UnavailableError):
                self.runner.run(self.calls.commit(one, None))
            self.tails_are_the_lengths()
        it = self.known[one]
        it.state, it.position = "committed", self._append(it.staged)
        assert self.runner.run(self.calls.commit(one, None)).position == it.position

    @rule(number=some)
    def abort(self, number: int) -> None:
        one = self.pick(number, is_open=True)
        if one is not None:
            self.runner.run(self.calls.abort(one))
            self.known[one].state = "aborted"

    @rule(number=some)
    def go_on_with_a_finished_one(self, number: int) -> None:
        one = self.pick(number, is_open=False)
        if one is None:
            return
        it = self.known[one]
        if it.state == "committed":
            assert self.runner.run(self.calls.commit(one, 5)).position == it.position
        for call in (self.calls.abort(one), self.calls.ping(one)):
            with pytest.raises(TransactionFinishedError) as refused:
                self.runner.run(call)
            assert refused.value.state == it.state

    @rule(writer=writers)
    def register(self, writer: str) -> None:
        self.incarnations[writer] = self.runner.run(self.log.register(writer)).incarnation
        for it in self.known.values():
            if it.writer == writer and it.state == "open":
                it.state = "aborted"

    @rule(appended=events)
    def append_outside(self, appended: list[Event]) -> None:
        self.appends += 1
        position = self._append(appended)
        assert self.runner.run(self.log.append_by_key(appended, str(self.appends))) == position

    @precondition(lambda self: len(self.model) < 20)
    @rule(number=some, merges=st.booleans())
    def scale(self, number: int, *, merges: bool) -> None:
        order = sorted(self.growing, key=self.growing.__getitem__)
        at = number % len(order)
        sealed = order[at : at + 2] if merges else order[at : at + 1]
        low, high = self.growing[sealed[0]].low, self.growing[sealed[-1]].high
        bounds = [low, high] if merges else [low, (low + high) / 2, high]
        ranges = [KeyRange(*pair) for pair in pairwise(bounds)]
        request = ScaleStream(seal=sealed, ranges=[tuple(one) for one in ranges])
        if merges and len(sealed) == 1:
            return
        added = self.runner.run(self._scale(request))
        for one in sealed:
            del self.growing[one]
        self.growing |= dict(zip(added, ranges, strict=True))
        self.model |= {one: [] for one in added}

    async def _scale(self, request: ScaleStream) -> list[int]:
        scale = partial(lifecycle.scale_stream, state=self.log.state, request=request)
        added: list[int] = await self.log.parts.sequencer.submit(scale)
        return added

    @rule()
    def restart_the_service(self) -> None:
        self.runner.run(self.stack.aclose())
        self.log = self._opened()

    def _append(self, appended: list[Event]) -> dict[int, int]:
        routed = [(self._route(event[0]), event) for event in appended]
        for number, event in routed:
            self.model[number].append(event)
        return {number: len(self.model[number]) for number, _ in routed}

    def _route(self, key: str) -> int:
        hashed = key_hash(key)
        return next(
            number for number, one in self.growing.items() if one.low <= hashed < one.high
        )

    @invariant()
    def tails_are_the_lengths(self) -> None:
        lengths = {number: len(stored) for number, stored in self.model.items()}
        assert self.log.state.published.tails == lengths

    def teardown(self) -> None:
        for one, it in self.known.items():
            found = self.runner.run(self.calls.find(one))
            assert (found.state, found.events) == (it.state, len(it.staged))
        for segment, stored in self.model.items():
            assert self.runner.run(self.log.read(segment))[1] == stored
        self.runner.run(self.stack.aclose())
        self.runner.close()
        self.directory.cleanup()


@pytest.mark.only_on("sqlite", "it is about order, which no database changes")
def test_transactions_do_what_lists_would(new_database: NewDatabase, effort: Effort) -> None:
    class Machine(TransactionMachine):
        def new_database(self, directory: Path) -> str:
            return new_database(directory)

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=effort.times("runs of 30 operations", short=5, long=200),
            stateful_step_count=30,
        ),
    )
