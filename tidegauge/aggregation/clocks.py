"""The two clocks that bound how long one writer can hold the others: silence and standing still.

The clocks of a writer run while another one is *ahead* of it, which is so for every live writer
below the greatest stand. A clock shows the time that has passed since its *stamp*, or since
somebody began to wait, if that was later. So when nobody is ahead any more, all clocks end at
once, with nothing to do. Stamps are given in order of time, so the writer whose clock shows most
comes first in that order.

After a look, each live writer is in exactly one of two places, and no other writer is in either:

- *front*: it is at the greatest stand, so nobody is ahead of it, and it has no stamp;
- *stamps*: both clocks have a stamp of it.

Two sets collect whom the next look has to place; a look touches no others, but for the front if
the greatest stand changed, and empties both:

- *heard*: writers, live or not, of which a report was accepted since the look before;
- *fresh*: live writers whose clocks start anew. They are in neither place, like those of the
  heard ones that became live by their report.

The look removes a writer that is at the greatest stand from the stamps, and adds it to the
front. It stamps the others: a heard one in the clock of silence, also in the other one if it
progressed, and in both if it has no stamp yet or the front was left behind. A writer that goes
out is removed from everything but heard.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain, groupby, islice, takewhile

import msgspec

from tidegauge.aggregation.changes import (
    Began,
    ClockState,
    Look,
    Paced,
    StoredClocks,
    StoredTime,
)
from tidegauge.aggregation.passing_time import PassingTime
from tidegauge.aggregation.writers import Writer
from tidegauge.states import Clock

_STOPS_WITHIN_MS = 60_000
"""Where nobody is ever dropped, silence begins as with the default timeout."""
COUNTED_GAP_MS = 300_000
"""So much of a gap between reports counts as held (rule 8b.9)."""


class View(msgspec.Struct, frozen=True):
    """The stream at a look."""

    now_ms: int
    """Listening time."""
    timeout_ms: int | None
    limit_ms: int | None
    watermark: int | None
    revision: int
    greatest: int | None
    """The greatest stand, of whoever is ahead; None while nobody is, or too few reported."""


class HoldClock:
    """One of the two clocks, of all writers that have a stamp.

    Attributes
    ----------
    stamps
        When the clock of each writer started, in order.
    time
        What the clock is read in.
    waiting
        Its time at the look that found somebody ahead of the watermark; None while nobody is.
    """

    def __init__(self) -> None:
        # Not a dict: to find its first entry it would pass all that were removed before.
        self.stamps: OrderedDict[Writer, int] = OrderedDict()
        self.time = PassingTime()
        self.waiting: int | None = None

    def sort(self) -> None:
        """Sort the stamps by time."""
        in_order = sorted(self.stamps.items(), key=lambda item: item[1])
        self.stamps = OrderedDict(in_order)

    def stamp(self, writers: Iterable[Writer]) -> None:
        """Start the clock of some writers now."""
        ms, stamps = self.time.ms, self.stamps
        for writer in writers:
            stamps[writer] = ms
            stamps.move_to_end(writer)

    def pass_time(self, view: View, setting_ms: int | None, *, goes_on: bool) -> None:
        """Advance the clock's time to a look, and start or end the waiting."""
        ms = self.time.look(view.now_ms, setting_ms, goes_on=goes_on)
        if view.greatest is None:
            self.waiting = None
        elif self.waiting is None:
            self.waiting = ms

    def since(self, writer: Writer) -> int:
        """Return the time from which the clock of a writer that has a stamp counts."""
        return max(self.stamps[writer], self.waiting or 0)

    def shown(self, writer: Writer, now_ms: int, setting_ms: int | None) -> int | None:
        """Return what the clock of a writer shows, ms; None if it does not run."""
        if self.waiting is None or setting_ms is None or writer not in self.stamps:
            return None
        return self.time.at(now_ms, setting_ms) - self.since(writer)

    def has_run_out(self, writer: Writer, now_ms: int, setting_ms: int | None) -> bool:
        """Return whether the clock of a writer shows all of the setting."""
        shown = self.shown(writer, now_ms, setting_ms)
        return shown is not None and setting_ms is not None and shown >= setting_ms

    def end_of(self, writer: Writer, setting_ms: int | None) -> int | None:
        """Return the listening time at which the clock of a writer runs out.

        None if it does not run, or if somebody has to go on before.
        """
        if self.waiting is None or setting_ms is None or writer not in self.stamps:
            return None
        return self.time.reaches(self.since(writer) + setting_ms, setting_ms)

    def count_before(self, writer: Writer, most: int) -> int:
        """Count the writers whose clock shows at least what a writer's does: of the first so many."""
        end, first = self.since(writer), islice(self.stamps, most)
        return sum(1 for _ in takewhile(lambda other: self.since(other) <= end, first))


class HoldClocks:
    """The clocks of a stream's live writers; the invariant is at the top of this file.

    Attributes
    ----------
    heard
        Writers, live or not, of which a report was accepted since the latest look.
    deadline
        The listening time at which the next writer is dropped if nothing else happens; None if
        none is.
    held
        When the span began that goes on, in which the watermark is held; `Holds` says so.
    """

    def __init__(self) -> None:
        self.heard: dict[Writer, None] = {}
        self.deadline: int | None = None
        self._silence = HoldClock()
        self._limit = HoldClock()
        self._fresh: dict[Writer, None] = {}
        self._front: dict[Writer, None] = {}
        self._front_stand: int | None = None
        """The greatest stand, where those in front stood at the latest look."""
        self._counted = PassingTime()
        """Listening time, of which `COUNTED_GAP_MS` of a gap between reports count."""
        self.held: Began | None = None

    def state(self, reached: int | None, paced: Paced) -> ClockState:
        """Return what is stored of the stream's own part."""
        silence, limit = self._silence, self._limit
        return ClockState(
            _stored(silence.time),
            _stored(limit.time),
            _stored(self._counted),
            None
            if silence.waiting is None or limit.waiting is None
            else (silence.waiting, limit.waiting),
            self._front_stand,
            reached,
            self.held,
            paced,
        )

    def restore(self, state: ClockState) -> None:
        """Restore the stream's own part."""
        self._silence.time = PassingTime(*state.silence)
        self._limit.time = PassingTime(*state.limit)
        self._counted = PassingTime(*state.counted)
        self._silence.waiting, self._limit.waiting = state.waiting or (None, None)
        self._front_stand = state.front_stand
        self.held = state.held

    def stored(self, writer: Writer) -> StoredClocks:
        """Return what is stored of a writer's clocks, and of what decides how they go on."""
        noted, stand, life = writer.noted, writer.stand, writer.life
        return StoredClocks(
            stand=stand.at,
            stands_by_report=stand.by_report,
            grace=life.grace,
            ended_time=noted.ended_time,
            ended_revision=noted.ended_revision,
            first_time=noted.first_time,
            found_time=noted.found_time,
            found_ms=noted.found_ms,
            silence_stamp=self._silence.stamps.get(writer),
            limit_stamp=self._limit.stamps.get(writer),
            gone_ms=life.gone_ms,
            gone_watermark=life.gone_watermark,
            pace_time=life.pace_time,
            pace_ms=life.pace_ms,
            is_front=writer in self._front,
            is_fresh=writer in self._fresh,
            is_heard=writer in self.heard,
            came_ms=stand.came_ms,
            spoke_ms=noted.spoke_ms,
        )

    def restore_writer(self, writer: Writer, stored: StoredClocks) -> None:
        """Restore the clocks of a writer."""
        for belongs, writers in (
            (stored.is_heard, self.heard),
            (stored.is_fresh, self._fresh),
            (stored.is_front, self._front),
        ):
            if belongs:
                writers[writer] = None
        for clock, stamp in (
            (self._silence, stored.silence_stamp),
            (self._limit, stored.limit_stamp),
        ):
            if stamp is not None:
                clock.stamps[writer] = stamp

    def look_again(self, look: Look, fallen_to: Iterable[Writer]) -> None:
        """Apply a stored look to the writers once more."""
        before, held = self._front_stand, self.held
        self.restore(look.state)
        self._place(look.now_ms, look.watermark, look.revision, before, fallen_to, held)

    def settle(self) -> None:
        """Sort all that was restored."""
        self._silence.sort()
        self._limit.sort()

    def start_anew(self, writer: Writer) -> None:
        """Start the clocks of a live writer at the next look."""
        self.clear(writer)
        self._fresh[writer] = None

    def clear(self, writer: Writer) -> None:
        """End the clocks of a writer, for good unless it is live."""
        self._front.pop(writer, None)
        self._fresh.pop(writer, None)
        self._remove_stamps(writer)

    def forget(self, writer: Writer) -> None:
        """Remove a writer that is forgotten."""
        self.heard.pop(writer, None)
        self.clear(writer)

    @property
    def stirred(self) -> bool:
        """Whether something was heard of a writer, or one registered, since the latest look."""
        return bool(self.heard or self._fresh)

    def look(self, view: View, ahead: Iterable[Writer]) -> list[Writer]:
        """Advance the times, and start, end and stamp clocks; a pass begins with this.

        Parameters
        ----------
        view
            The stream as it is now.
        ahead
            The writers above the watermark; asked only when the greatest stand fell.

        Returns
        -------
        list of Writer
            Writers at the greatest stand because it fell; needed to do the same again.
        """
        progresses = any(
            writer.life.live and writer.noted.is_news(view.watermark, view.revision)
            for writer in self.heard
        )
        self._count_gap(view.now_ms)
        self._silence.pass_time(view, view.timeout_ms, goes_on=bool(self.heard))
        self._limit.pass_time(view, view.limit_ms, goes_on=progresses)
        before, self._front_stand = self._front_stand, view.greatest
        # Only a writer that changed can have risen to the greatest; but that may have fallen to others.
        rose = view.greatest is None or (before is not None and view.greatest >= before)
        fallen_to = [] if rose else [writer for writer in ahead if self._is_in_front(writer)]
        self._place(view.now_ms, view.watermark, view.revision, before, fallen_to, self.held)
        return fallen_to

    def take_run_out(
        self, view: View, holders: Collection[Writer], live: Callable[[], Iterable[Writer]]
    ) -> list[list[Writer]]:
        """Choose the writers to drop: group by group of equal stand, the lowest first.

        Only as long as some of those that come next have run out, and nobody remains of the
        group before. Nobody stands below a holder: ``live``, which lists all live writers, is
        asked only once all holders go.
        """
        groups: list[list[Writer]] = []
        self.deadline = None
        if not self:
            return groups
        if not any(self._has_run_out(writer, view) for writer in self.firsts(1)):
            self.deadline = self.first_end(self.firsts(1), view)
            return groups
        others = (writer for writer in live() if not writer.stand.holds)
        for group in chain(_lowest_first(holders), _lowest_first(others)):
            groups.append([writer for writer in group if self._has_run_out(writer, view)])
            if len(groups[-1]) < len(group):
                remaining = [writer for writer in group if not self._has_run_out(writer, view)]
                self.deadline = self.first_end(remaining, view)
                break
        return groups

    def silent_ms(self, view: View) -> int | None:
        """Return for how long no writer has reported, once nobody is dropped before one does."""
        time = self._silence.time
        if self.deadline is not None or time.moved_ms is None:
            return None
        setting_ms = view.timeout_ms or view.limit_ms or _STOPS_WITHIN_MS
        return time.stopped_ms(view.now_ms, setting_ms)

    def counted_ms(self, now_ms: int) -> int:
        """Return how much listening time has passed, of gaps between reports what counts."""
        return self._counted.at(now_ms, 2 * COUNTED_GAP_MS)

    def held_ms(self, now_ms: int, *, whole: bool) -> int:
        """Return for how long the watermark has been held: what counts of it, or the whole time."""
        if self.held is None:
            return 0
        if whole:
            return now_ms - self.held.hold.listening_ms
        return self.counted_ms(now_ms) - self.held.hold.counted_ms

    def has_stamped(self, writer: Writer) -> bool:
        """Return whether a look found a writer below the greatest stand."""
        return writer in self._silence.stamps

    def firsts(self, most: int) -> Iterator[Writer]:
        """List writers whose clocks show the most, some of each kind."""
        for clock in (self._silence, self._limit):
            yield from islice(clock.stamps, most)

    def __bool__(self) -> bool:
        return self._silence.waiting is not None

    def kinds(self, view: View) -> tuple[tuple[Clock, HoldClock, int | None], ...]:
        """Return both clocks with their names and settings."""
        return (
            ("silence", self._silence, view.timeout_ms),
            ("standing_still", self._limit, view.limit_ms),
        )

    def run_out(self, writer: Writer, view: View) -> Clock:
        """Return which clock of a writer has run out."""
        is_silent = self._silence.has_run_out(writer, view.now_ms, view.timeout_ms)
        return "silence" if is_silent else "standing_still"

    def _has_run_out(self, writer: Writer, view: View) -> bool:
        return self._silence.has_run_out(
            writer, view.now_ms, view.timeout_ms
        ) or self._limit.has_run_out(writer, view.now_ms, view.limit_ms)

    def first_end(self, writers: Iterable[Writer], view: View) -> int | None:
        """Return when the first of the clocks of some writers runs out."""
        ends = (
            clock.end_of(writer, setting_ms)
            for writer in writers
            for _, clock, setting_ms in self.kinds(view)
        )
        return min((end for end in ends if end is not None), default=None)

    def _count_gap(self, now_ms: int) -> None:
        """Advance to a look, which may end a gap between reports."""
        heard_ms, held = self._counted.moved_ms, self.held
        if self.heard and held is not None:
            gap_ms = now_ms - max(heard_ms or 0, held.span.listening_ms)
            if gap_ms > held.silence_ms:
                self.held = held._replace(silence_ms=gap_ms)
        self._counted.look(now_ms, 2 * COUNTED_GAP_MS, goes_on=bool(self.heard))

    def _place(
        self,
        now_ms: int,
        watermark: int | None,
        revision: int,
        front_before: int | None,
        fallen_to: Iterable[Writer],
        held: Began | None,
    ) -> None:
        """Place and stamp writers, in times that passed already."""
        if self._front_stand != front_before:
            self._silence.stamp(self._front)
            self._limit.stamp(self._front)
            self._front = {}
        for writer in filter(self._is_in_front, fallen_to):
            self._let_into_front(writer)
        if held is not None:
            for writer in self.heard:
                if writer.noted.spoke_ms <= held.span.listening_ms:
                    writer.noted.spoke_ms = now_ms
        spoke, progressed = self._place_heard(now_ms, watermark, revision)
        for writer in self._fresh:
            if self._is_in_front(writer):
                self._let_into_front(writer)
            elif writer not in self.heard:
                spoke.append(writer)
                progressed.append(writer)
        self._silence.stamp(spoke)
        self._limit.stamp(progressed)
        self.heard, self._fresh = {}, {}

    def _place_heard(
        self, now_ms: int, watermark: int | None, revision: int
    ) -> tuple[list[Writer], list[Writer]]:
        """Return whom of the heard writers to stamp in each clock, and record their times."""
        spoke: list[Writer] = []
        progressed: list[Writer] = []
        front, front_stand, stamps = self._front, self._front_stand, self._silence.stamps
        for writer in self.heard:  # in a busy stream nearly all: hardly a call for each of them
            noted = writer.noted
            if writer.life.presence == "live":
                if front_stand is not None and writer.stand.at == front_stand:
                    self._let_into_front(writer)
                else:
                    if front:
                        front.pop(writer, None)
                    spoke.append(writer)
                    if noted.is_news(watermark, revision) or writer not in stamps:
                        progressed.append(writer)
            if noted.time != noted.found_time:
                noted.found_time, noted.found_ms = noted.time, now_ms
        return spoke, progressed

    def _is_in_front(self, writer: Writer) -> bool:
        return (
            self._front_stand is not None
            and writer.life.live
            and writer.stand.at == self._front_stand
        )

    def _let_into_front(self, writer: Writer) -> None:
        self._front[writer] = None
        self._remove_stamps(writer)

    def _remove_stamps(self, writer: Writer) -> None:
        self._silence.stamps.pop(writer, None)
        self._limit.stamps.pop(writer, None)


def _lowest_first(writers: Iterable[Writer]) -> Iterator[list[Writer]]:
    """Group writers by where they stand, the lowest first.

    Nearly always one group is asked for, which is found without sorting.
    """
    candidates = list(writers)
    if not candidates:
        return
    lowest = min(map(_rank, candidates))
    yield [writer for writer in candidates if _rank(writer) == lowest]
    others = sorted((writer for writer in candidates if _rank(writer) != lowest), key=_rank)
    for _, equals in groupby(others, key=_rank):
        yield list(equals)


def _rank(writer: Writer) -> tuple[bool, int]:
    """Return the order of writers by where they stand; those that stand nowhere come first."""
    return writer.stand.at is not None, writer.stand.at or 0


def _stored(time: PassingTime) -> StoredTime:
    return StoredTime(time.ms, time.counted_ms, time.moved_ms)
