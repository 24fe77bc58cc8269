"""The two clocks that bound how long one writer can hold the others: silence and standing still.

The clocks of a writer run while another one is *ahead* of it, which is so for every live writer
below the greatest standing. A look touches only the writers of which something was heard since
the look before, and those that the greatest standing left behind:

- a clock is the time that has passed since its stamp, or since somebody began to wait, if that
  was later; so when nobody is ahead any more, all clocks end at once, with nothing to do;
- who stands at the greatest, the *front*, has no stamps, and gets them at the look that finds
  somebody ahead of it;
- stamps are given in order of time, so whoever has run out comes first in that order.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import astuple
from itertools import chain, groupby, islice, takewhile

import msgspec

from tidegauge.aggregation.changes import ClockState, Look, StoredTime
from tidegauge.aggregation.passing_time import PassingTime
from tidegauge.aggregation.writers import Writer
from tidegauge.states import Clock


class View(msgspec.Struct, frozen=True):
    """The stream at a look."""

    now_ms: int
    """Listening time."""
    timeout_ms: int | None
    limit_ms: int | None
    watermark: int | None
    revision: int
    greatest: int | None
    """The greatest standing, of whoever is ahead; None while nobody is, or too few reported."""


class _Stamps:
    """Writers in the order of one kind of stamps."""

    def __init__(self, of: Callable[[Writer], int | None]) -> None:
        # Not a dict: who looks for its first entry goes by all that were taken out before.
        self.writers: OrderedDict[Writer, None] = OrderedDict()
        self.time = PassingTime()
        self._of = of

    def sort(self) -> None:
        in_order = sorted(self.writers, key=lambda one: self._of(one) or 0)
        self.writers = OrderedDict.fromkeys(in_order)

    def add(self, writer: Writer) -> None:
        """Put a writer last, which was stamped now."""
        self.writers[writer] = None
        self.writers.move_to_end(writer)

    def since(self, writer: Writer, waiting: int) -> int:
        return max(self._of(writer) or 0, waiting)

    def has_run_out(
        self, writer: Writer, view: View, setting_ms: int | None, waiting: int
    ) -> bool:
        if setting_ms is None:
            return False
        return self.time.at(view.now_ms, setting_ms) - self.since(writer, waiting) >= setting_ms

    def end_of(self, writer: Writer, setting_ms: int | None, waiting: int) -> int | None:
        """Tell the listening time at which a clock runs out; None if somebody has to go on."""
        if setting_ms is None:
            return None
        return self.time.reaches(self.since(writer, waiting) + setting_ms, setting_ms)


class HoldClocks:
    """The clocks of a stream's live writers.

    Attributes
    ----------
    heard
        Writers, live or not, of which a report was accepted since the latest look.
    deadline
        The listening time at which the next writer is dropped if nothing else happens; None if
        none is.
    """

    def __init__(self) -> None:
        self.heard: dict[Writer, None] = {}
        self.deadline: int | None = None
        self._silence = _Stamps(lambda one: one.silence_stamp)
        self._limit = _Stamps(lambda one: one.limit_stamp)
        self._fresh: dict[Writer, None] = {}
        """Live writers whose clocks start anew at the next look."""
        self._front: dict[Writer, None] = {}
        self._front_stand: int | None = None
        self._waiting: tuple[int, int] | None = None
        """Both times at the look that found somebody ahead of the watermark."""
        self._began_ms: int | None = None
        """Listening time of that look, or of the first one since this was restored."""

    def state(self, reached: int | None) -> ClockState:
        """Tell what is stored of the stream's own part."""
        return ClockState(
            StoredTime(*astuple(self._silence.time)),
            StoredTime(*astuple(self._limit.time)),
            self._waiting,
            self._front_stand,
            reached,
        )

    def restore(self, state: ClockState) -> None:
        """Take in the stream's own part."""
        self._silence.time = PassingTime(*state.silence)
        self._limit.time = PassingTime(*state.limit)
        self._waiting, self._front_stand = state.waiting, state.front_stand

    def restore_writer(self, writer: Writer) -> None:
        """Take in a writer."""
        for belongs, those in (
            (writer.is_heard, self.heard),
            (writer.is_fresh, self._fresh),
            (writer.is_front, self._front),
            (writer.silence_stamp is not None, self._silence.writers),
            (writer.limit_stamp is not None, self._limit.writers),
        ):
            if belongs:
                those[writer] = None

    def look_again(self, look: Look, fallen_to: Iterable[Writer]) -> None:
        """Do to the writers what a look did that is stored."""
        before = self._front_stand
        self.restore(look.state)
        self._stamp(look.now_ms, look.watermark, look.revision, before, fallen_to)

    def settle(self) -> None:
        """Bring into order what was taken in."""
        self._silence.sort()
        self._limit.sort()

    def shift(self, by_ms: int) -> None:
        """Count listening time from another point."""
        self._silence.time.shift(by_ms)
        self._limit.time.shift(by_ms)
        if self.deadline is not None:
            self.deadline += by_ms
        if self._began_ms is not None:
            self._began_ms += by_ms

    def hear(self, writer: Writer) -> None:
        """Note that a report was accepted."""
        self.heard[writer] = None
        writer.is_heard = True

    def start_anew(self, writer: Writer) -> None:
        """Have the clocks of a live writer start at the next look."""
        self.clear(writer)
        self._fresh[writer] = None
        writer.is_fresh = True

    def clear(self, writer: Writer) -> None:
        """End the clocks of a writer, for good unless it is live."""
        for those in (self._front, self._fresh, self._silence.writers, self._limit.writers):
            those.pop(writer, None)
        writer.silence_stamp = writer.limit_stamp = None
        writer.is_front = writer.is_fresh = False

    def forget(self, writer: Writer) -> None:
        """Leave out a writer that is forgotten."""
        self.heard.pop(writer, None)
        for those in (self._front, self._fresh, self._silence.writers, self._limit.writers):
            those.pop(writer, None)

    @property
    def stirred(self) -> bool:
        """Whether something was heard of a writer, or one registered, since the latest look."""
        return bool(self.heard or self._fresh)

    def look(self, view: View, ahead: Iterable[Writer]) -> list[Writer]:
        """Let time pass, and start, end and stamp clocks, as the beginning of a pass does.

        Parameters
        ----------
        view
            The stream as it is now.
        ahead
            Whoever stands above the watermark; asked only when the greatest standing fell.

        Returns
        -------
        list of Writer
            Who stands at the greatest because that fell; needed to do the same again.
        """
        progresses = any(
            one.live and one.is_news(view.watermark, view.revision) for one in self.heard
        )
        silence = self._silence.time.look(
            view.now_ms, view.timeout_ms, goes_on=bool(self.heard)
        )
        limit = self._limit.time.look(view.now_ms, view.limit_ms, goes_on=progresses)
        if view.greatest is None:
            self._waiting = None
        elif self._waiting is None:
            self._waiting = silence, limit
        if view.greatest is None:
            self._began_ms = None
        elif self._began_ms is None:
            self._began_ms = view.now_ms
        before, self._front_stand = self._front_stand, view.greatest
        # Only who changed can have risen to the greatest; but it may have fallen back to others.
        rose = view.greatest is None or (before is not None and view.greatest >= before)
        fallen_to = [] if rose else [one for one in ahead if self._is_in_front(one)]
        self._stamp(view.now_ms, view.watermark, view.revision, before, fallen_to)
        return fallen_to

    def take_run_out(
        self, view: View, holders: Collection[Writer], live: Callable[[], Iterable[Writer]]
    ) -> list[list[Writer]]:
        """Choose who is dropped: group by group of equal standing, the lowest first.

        Only as long as some of those that come next have run out, and nobody remains of the
        group before. Nobody stands below a holder: ``live``, which lists all live writers, is
        asked only once all holders go.
        """
        groups: list[list[Writer]] = []
        self.deadline = None
        if self._waiting is None:
            return groups
        if not any(self._has_run_out(one, view) for one in self.firsts(1)):
            self.deadline = self._first_end(self.firsts(1), view)
            return groups
        others = (one for one in live() if not one.holds)
        for group in chain(_lowest_first(holders), _lowest_first(others)):
            groups.append([one for one in group if self._has_run_out(one, view)])
            if len(groups[-1]) < len(group):
                remaining = [
                    one
                    for one in group
                    if not one.is_front and not self._has_run_out(one, view)
                ]
                self.deadline = self._first_end(remaining, view)
                break
        return groups

    def _has_run_out(self, writer: Writer, view: View) -> bool:
        if self._waiting is None or writer.silence_stamp is None:
            return False
        silence, limit = self._waiting
        return self._silence.has_run_out(
            writer, view, view.timeout_ms, silence
        ) or self._limit.has_run_out(writer, view, view.limit_ms, limit)

    def silent_for(self, writer: Writer, view: View) -> int | None:
        """Tell what the clock of silence shows; None if it does not run."""
        return self._shown(self._silence, writer, 0, view.now_ms, view.timeout_ms)

    def standing_for(self, writer: Writer, view: View) -> int | None:
        """Tell what the clock of standing still shows; None if it does not run."""
        return self._shown(self._limit, writer, 1, view.now_ms, view.limit_ms)

    def end_of(self, writer: Writer, view: View) -> int | None:
        """Tell the listening time at which a clock of a writer runs out.

        None if none runs, or if somebody has to go on before.
        """
        runs = writer in self._silence.writers
        return self._first_end([writer], view) if runs else None

    def stopped_ms(self, view: View) -> dict[Clock, int | None]:
        """Tell for how long nobody has gone on, for each clock whose time stands; else None."""
        return {
            "silence": self._silence.time.stopped_ms(view.now_ms, view.timeout_ms),
            "standing_still": self._limit.time.stopped_ms(view.now_ms, view.limit_ms),
        }

    def nearer(self, writer: Writer, view: View) -> Clock | None:
        """Tell which clock is nearer its end: the one that gets there if nothing else happens.

        Otherwise the one that shows more of its setting: who beats is not about to be dropped
        for silence, however short the timeout is.
        """
        if self._waiting is None:
            return None
        kinds: tuple[tuple[Clock, _Stamps, int | None], ...] = (
            ("silence", self._silence, view.timeout_ms),
            ("standing_still", self._limit, view.limit_ms),
        )
        running: list[tuple[bool, float, Clock]] = []
        for number, (kind, stamps, setting_ms) in enumerate(kinds):
            shown_ms = self._shown(stamps, writer, number, view.now_ms, setting_ms)
            if shown_ms is not None and setting_ms is not None:
                end = stamps.end_of(writer, setting_ms, self._waiting[number])
                running.append((end is not None, shown_ms / setting_ms, kind))
        return max(running, key=lambda one: one[:2])[2] if running else None

    def run_out_with(self, writer: Writer, view: View, most: int) -> int:
        """Count the others whose clock runs out with a writer's, or before: of so many at most."""
        kind = self.nearer(writer, view)
        if self._waiting is None or kind is None:
            return 0
        number = 0 if kind == "silence" else 1
        stamps, waiting = (self._silence, self._limit)[number], self._waiting[number]
        end = stamps.since(writer, waiting)
        first = islice(stamps.writers, most)
        return (
            sum(1 for _ in takewhile(lambda one: stamps.since(one, waiting) <= end, first)) - 1
        )

    def waited_ms(self, view: View) -> int:
        """Tell for how long somebody has waited, as far as this process has seen it."""
        return 0 if self._began_ms is None else view.now_ms - self._began_ms

    def firsts(self, most: int) -> Iterator[Writer]:
        """List writers whose clocks show the most, some of each kind."""
        for stamps in (self._silence, self._limit):
            yield from islice(stamps.writers, most)

    def __bool__(self) -> bool:
        return self._waiting is not None

    def _shown(
        self, stamps: _Stamps, writer: Writer, kind: int, now_ms: int, setting_ms: int | None
    ) -> int | None:
        if self._waiting is None or setting_ms is None or writer not in stamps.writers:
            return None
        since = stamps.since(writer, self._waiting[kind])
        return stamps.time.at(now_ms, setting_ms) - since

    def _stamp(  # noqa: C901 (one loop, without calls: it touches all that were heard)
        self,
        now_ms: int,
        watermark: int | None,
        revision: int,
        front_before: int | None,
        fallen_to: Iterable[Writer],
    ) -> None:
        """Start, end and stamp the clocks of writers, in times that passed already."""
        changed = self.heard | self._fresh if self._fresh else self.heard
        self.heard, self._fresh = {}, {}
        if self._front_stand != front_before:
            for writer in self._front:
                writer.is_front = False
                writer.silence_stamp = self._silence.time.ms
                writer.limit_stamp = self._limit.time.ms
                self._silence.add(writer)
                self._limit.add(writer)
            self._front = {}
        for writer in filter(self._is_in_front, fallen_to):
            self._let_into_front(writer)
        front_stand = self._front_stand
        silence, limit = self._silence, self._limit
        for writer in changed:  # in a busy stream nearly all: hardly a call for each of them
            live, is_heard, time = writer.standing == "live", writer.is_heard, writer.time
            if live and writer.stand == front_stand and front_stand is not None:
                self._let_into_front(writer)
            elif writer.is_front:
                self._front.pop(writer, None)
                writer.is_front = False
            if live and not writer.is_front:
                is_fresh = writer.is_fresh or writer.silence_stamp is None
                if is_fresh or is_heard:
                    writer.silence_stamp = silence.time.ms
                    silence.writers[writer] = None
                    silence.writers.move_to_end(writer)
                if is_fresh or (is_heard and writer.is_news(watermark, revision)):
                    writer.limit_stamp = limit.time.ms
                    limit.writers[writer] = None
                    limit.writers.move_to_end(writer)
            if is_heard and time != writer.found_time:
                writer.found_time, writer.found_ms = time, now_ms
            writer.is_fresh = writer.is_heard = False

    def _is_in_front(self, writer: Writer) -> bool:
        return (
            self._front_stand is not None and writer.live and writer.stand == self._front_stand
        )

    def _let_into_front(self, writer: Writer) -> None:
        self._front[writer] = None
        self._silence.writers.pop(writer, None)
        self._limit.writers.pop(writer, None)
        writer.silence_stamp = writer.limit_stamp = None
        writer.is_front = True

    def _first_end(self, writers: Iterable[Writer], view: View) -> int | None:
        """Tell when the first of the clocks of some writers runs out."""
        if self._waiting is None:
            return None
        ends = [
            end
            for one in writers
            for end in (
                self._silence.end_of(one, view.timeout_ms, self._waiting[0]),
                self._limit.end_of(one, view.limit_ms, self._waiting[1]),
            )
            if end is not None
        ]
        return min(ends, default=None)


def _lowest_first(writers: Iterable[Writer]) -> Iterator[list[Writer]]:
    """Group writers by where they stand, the lowest first.

    Nearly always one group is asked for, which is found without sorting.
    """
    those = list(writers)
    if not those:
        return
    lowest = min(map(_rank, those))
    yield [one for one in those if _rank(one) == lowest]
    others = sorted((one for one in those if _rank(one) != lowest), key=_rank)
    for _, equals in groupby(others, key=_rank):
        yield list(equals)


def _rank(writer: Writer) -> tuple[bool, int]:
    """Who stands nowhere comes before all."""
    return writer.stand is not None, writer.stand or 0
