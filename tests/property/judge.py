"""What must hold of marks, said of enumerated events: soundness, tightness and the invariants.

The judge knows what really happened: every event that was written, by whom and with which time.
It never looks at how a mark was made.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from tests.property.events import Event, Events, union
from tests.property.model import Model, ModelMark, ModelWriter
from tidegauge.marks import Mark


class Written(NamedTuple):
    """An event, and who wrote it."""

    event: Event
    time: int
    writer: str
    process: object


class Known(NamedTuple):
    """What was known of a writer when a mark was made."""

    live: bool
    process: object
    """The one that spoke last."""
    reported: Events
    """By all of its incarnations."""
    promises: tuple[tuple[int, Events], ...]
    """Times and positions of its present incarnation's reports, in order."""
    former: Events
    """What counts as written at any time."""


@dataclass(frozen=True)
class Judged:
    """A mark as it came out, with what was known then."""

    mark: Mark
    events: Events
    """What lies before its cut."""
    previous: Events
    """What lay before the cut of the mark before it."""
    writers: dict[str, Known]


@dataclass
class Judge:
    judged: list[Judged] = field(default_factory=list)

    def hear(
        self, marks: Sequence[Mark], model: Model, speakers: Mapping[str, object]
    ) -> list[ModelMark]:
        """Take in the marks of a pass, as of the model after expiring; return them for it."""
        writers = {
            name: _known(writer, speakers[name]) for name, writer in model.writers.items()
        }
        heard = []
        for mark in marks:
            previous = self.judged[-1].events if self.judged else frozenset[Event]()
            events = model.shape.events_of(mark.cut)
            assert model.shape.cut_of(events) == mark.cut, "the cut is no frontier"
            self.judged.append(Judged(mark, events, previous, writers))
            heard.append(ModelMark(mark.revision, mark.lower, mark.upper, events))
        return heard

    def check_invariants(self) -> None:
        """Lower rises, upper never falls, cuts never go back, revisions have no gaps."""
        marks = [one.mark for one in self.judged]
        assert [mark.revision for mark in marks] == list(range(1, len(marks) + 1))
        assert all(mark.upper >= mark.lower for mark in marks)
        for one, other in pairwise(self.judged):
            assert other.mark.lower > one.mark.lower
            assert other.mark.upper >= one.mark.upper
            assert other.events >= one.events

    def check_soundness(self, log: Iterable[Written]) -> None:
        """No event older than ``lower`` lies after the cut, if its writer kept its promise."""
        for written in log:
            for one in self.judged:
                if written.time < one.mark.lower and written.event not in one.events:
                    assert _is_excused(written, one), f"{written} is late at {one.mark}"

    def check_tightness(self) -> None:
        """No smaller cut that follows the previous one is sound for the reports seen."""
        for one in self.judged:
            needless = one.events - one.previous - needed(one)
            assert not needless, f"{sorted(needless)} need not lie before {one.mark}"

    def check_needed(self) -> None:
        """Whatever the reports seen say may be older than ``lower`` lies before the cut."""
        for one in self.judged:
            missing = needed(one) - one.events
            assert not missing, f"{sorted(missing)} must lie before {one.mark}"


def needed(one: Judged) -> Events:
    """Each event that some writer's reports allow to be older than the mark's lower bound."""
    return union(_may_be_older(known, one.mark.lower) for known in one.writers.values())


def _may_be_older(known: Known, lower: int) -> Events:
    return frozenset(
        event for event in known.reported if _may_be_older_event(event, known, lower)
    )


def _may_be_older_event(event: Event, known: Known, lower: int) -> bool:
    """Tell whether no promise made before the writer covered the event says otherwise."""
    if event in known.former:
        return True
    promised = None
    for time, position in known.promises:
        if event in position:
            break
        promised = time
    return promised is None or promised < lower


def _is_excused(written: Written, one: Judged) -> bool:
    known = one.writers.get(written.writer)
    if known is None:
        return True
    if known.process is not written.process:
        return written.event not in known.former
    return not known.live and written.event not in known.reported


def _known(writer: ModelWriter, process: object) -> Known:
    return Known(
        writer.live,
        process,
        writer.position,
        tuple((report.time, report.named) for report in writer.reports),
        writer.base,
    )
