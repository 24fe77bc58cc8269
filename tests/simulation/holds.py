"""Whether the writer of a stored span held the watermark at each pass of it, as far as passes are durable."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple
from unittest import mock

from controller.streams.stream import StreamState
from tests.simulation import clocks
from tests.simulation.disk import Disk
from tidegauge import states
from tidegauge.aggregation.outcomes import PassOutcome
from tidegauge.holds import Hold

_AFTER_MS = 300
"""A hold counts so soon: a run takes seconds."""


class Pass(NamedTuple):
    """What a pass found, once it was durable."""

    true_ms: int
    span: tuple[int, int] | None
    """When the span began that goes on after it, on the clocks of the controller."""
    holders: frozenset[str]
    ended: list[Hold]


@dataclass
class Passes:
    """The durable passes of each stream."""

    _found: dict[StreamState, Pass] = field(default_factory=dict)
    """Those whose transactions have not ended."""
    _seen: dict[str, list[Pass]] = field(default_factory=dict)
    """By the id of the stream."""

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Follow all passes of a run, in which holds count soon."""
        noted, committed = StreamState.take_note, StreamState.after_commit
        reread = StreamState.reload

        def take_note(state: StreamState, outcome: PassOutcome) -> None:
            began = state.aggregator._clocks.held
            holders = frozenset(one.name for one in state.aggregator._progress.holders)
            span = None if began is None else began.span[:2]
            self._found[state] = Pass(clocks.true_ms(), span, holders, outcome.holds)
            noted(state, outcome)

        def after_commit(state: StreamState) -> None:
            if found := self._found.pop(state, None):
                self._seen.setdefault(state.identity.stream_id, []).append(found)
            committed(state)

        async def reload(state: StreamState) -> None:
            self._found.pop(state, None)
            await reread(state)

        patched = mock.patch.multiple(
            StreamState, take_note=take_note, after_commit=after_commit, reload=reload
        )
        with patched, mock.patch.object(states, "HELD_AFTER_MS", _AFTER_MS):
            yield

    def judge(self, name: str, stream_id: str, disk: Disk, *, now_s: float) -> list[str]:
        """Judge what is stored of one stream; what was before the database went back is left out."""
        stored = set(
            disk.look(
                "SELECT number, writer FROM holds JOIN streams ON key = stream_key "
                "WHERE stream_id = ?",
                stream_id,
            )
        )
        from_ms = clocks.true_ms() - 1_000 * (now_s - disk.went_back_s)
        faults, span, held = list[str](), None, list[Pass]()
        # A controller that hangs may hear late of a commit.
        for one in sorted(self._seen.get(stream_id, ()), key=lambda one: one.true_ms):
            if one.true_ms <= from_ms:
                continue
            for hold in one.ended:
                place = f"{name} up to {hold.number} by {hold.writer}"
                faults += [
                    f"held by another: {place}, not at {each.true_ms}: {sorted(each.holders)}"
                    for each in held
                    if hold.writer not in each.holders
                ]
                if (hold.number, hold.writer) not in stored:
                    faults.append(f"held by another: {place} is not stored")
            held = [*held, one] if one.span == span else [one]
            span = one.span
        return faults
