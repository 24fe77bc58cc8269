"""Holds: spans in which the watermark stood while somebody waited, and who held it throughout.

Until the watermark rises its holders become fewer; only writers that come meanwhile, the
*newcomers*, become more of them. So whoever held when a span began and stopped last held through
all of it, and one name says the truth of every moment. Once such holders are gone, and newcomers
hold alone, the span ends and the next one begins: with as few spans as can be, they tile the hold.

Each pass looks at who moved since the one before it; a report costs an entry in a dictionary.
"""

from collections.abc import Mapping, Sequence

from tidegauge.aggregation.changes import Began, Moment, Paced
from tidegauge.aggregation.parts import Parts
from tidegauge.aggregation.writers import Now, Writer
from tidegauge.event_time import END_OF_TIME
from tidegauge.holds import Hold, HoldEnd
from tidegauge.marks import Mark
from tidegauge.states import Clock, patience_ms

_DRIFT_MS = 1_000
"""Two clocks of one machine may differ by so much in a span."""
LONG_MS = 60_000
"""A hold of so long is worth a line in the log."""
_WEIGHT = 8
"""The latest pass counts for so much less than the mean."""


def _mean(before: float | None, sample: float) -> float:
    return sample if before is None else before + (sample - before) / _WEIGHT


class Holds:
    """Follows who holds the watermark, from pass to pass.

    Parameters
    ----------
    parts
        Of the stream's aggregation.

    Attributes
    ----------
    paced
        How the watermark has moved lately, and how many spans were stored.
    """

    def __init__(self, parts: Parts) -> None:
        self.paced = Paced()
        self._progress, self._roster, self._clocks = (
            parts.progress,
            parts.roster,
            parts.clocks,
        )
        self._newcomers: dict[Writer, None] = {}
        """Holders that came after the span began."""
        self._last: tuple[Writer, HoldEnd] | None = None
        """The holder from its beginning that ceased to hold last, and how."""
        self._count = 0
        """Of the holders at the end of the pass before."""
        self._others, self._sampled_ms = 0, 0
        self._told = False
        """Whether the log says that this hold is long."""

    @property
    def patience_ms(self) -> float:
        """For how long the watermark may stand before a hold counts."""
        return patience_ms(self.paced.mean_ms)

    def restore(self, paced: Paced) -> None:
        """Go on with a span that began before a restart.

        A holder that no look has stamped came by a commit that no pass has seen.
        """
        self.paced, self._progress.moved = paced, {}
        began, holders = self._clocks.held, self._progress.holders
        if began is not None:
            self._newcomers = {
                writer: None
                for writer in holders
                if writer.stand.came_ms > began.span.listening_ms
                or not self._clocks.has_stamped(writer)
            }
            self._count = len(holders)

    def look(
        self, now: Now, watermark: int | None, *, ran_out: Mapping[str, Clock]
    ) -> Hold | None:
        """Look at who came and went since the pass before; marks come after this.

        ``ran_out`` are the clocks of those that this pass expired. Return the span that ended.
        """
        moved, self._progress.moved = self._progress.moved, {}
        began, newcomers = self._clocks.held, self._newcomers
        if began is None:
            return None
        age_ms = now.listening_ms - began.span.listening_ms
        if age_ms >= 2 * self._sampled_ms:
            self._others, self._sampled_ms = self._count - 1, age_ms
        for writer, presence in moved.items():
            if writer.stand.holds:
                writer.stand.came_ms = now.listening_ms
                newcomers[writer] = None
                self._roster.change(writer)
            elif writer in newcomers:
                del newcomers[writer]
            elif presence == "expired":
                self._last = writer, ran_out.get(writer.name, "operator")
            else:
                self._last = writer, "noted" if presence == "live" else "left"
        if not self._progress.holders or len(newcomers) < len(self._progress.holders):
            return None
        ended = self._close(now, watermark)
        self._begin(now, hold=began.hold)
        return ended

    def settle(
        self,
        now: Now,
        before: int | None,
        marks: Sequence[Mark],
        *,
        is_held: bool,
        end: HoldEnd = "quiet",
    ) -> Hold | None:
        """End the span that marks ended, and begin the next one, at the end of a pass; return the former.

        ``before`` is the watermark that stood, ``end`` why nobody is held any more without marks.
        """
        ended = None
        if marks:
            self._progress.moved = {}
            ended = self._close(now, before, reached=marks[-1].lower)
            self._clocks.held = None
            self.paced = self._paced(now, before, marks)
        elif not is_held:
            reached = END_OF_TIME if end == "sealed" else None
            ended = self._close(now, before, end=end, reached=reached)
            self._clocks.held = None
        if is_held and self._clocks.held is None:
            self._begin(now)
        self._count = len(self._progress.holders)
        return ended

    def current(self, now: Now, watermark: int | None) -> Hold | None:
        """Return the span that goes on; None if nobody is held, or not for long enough."""
        return self._close(now, watermark, goes_on=True)

    def became_long(self, now: Now, watermark: int | None) -> Hold | None:
        """Return the span that goes on if the hold has become long, once."""
        began = self._clocks.held
        if self._told or began is None or _lasted_ms(now, began.hold) < LONG_MS:
            return None
        found = self.current(now, watermark)
        self._told = found is not None
        return found

    def _begin(self, now: Now, *, hold: Moment | None = None) -> None:
        counted_ms = self._clocks.counted_ms(now.listening_ms)
        span = Moment(now.listening_ms, now.wall_ms, counted_ms)
        self._clocks.held = Began(span, hold or span)
        self._newcomers, self._last = {}, None
        self._others, self._sampled_ms = 0, 0
        self._count = len(self._progress.holders)
        self._told = hold is not None and self._told

    def _paced(self, now: Now, before: int | None, marks: Sequence[Mark]) -> Paced:
        """Take marks into the means; a time for which the watermark was held or quiet is cut short."""
        paced = self.paced
        if paced.marked_ms is None or before is None:
            return paced._replace(marked_ms=now.listening_ms)
        passed_ms = now.listening_ms - paced.marked_ms
        gain = (marks[-1].lower - before) / max(1, passed_ms)
        return Paced(
            _mean(paced.mean_ms, min(passed_ms, self.patience_ms)),
            now.listening_ms,
            _mean(paced.marks, len(marks)),
            _mean(paced.gain, gain),
            paced.spans,
        )

    def _close(
        self,
        now: Now,
        watermark: int | None,
        *,
        reached: int | None = None,
        end: HoldEnd | None = None,
        goes_on: bool = False,
    ) -> Hold | None:
        """Make the span that ends; None if it does not count, or nobody is known to have held."""
        began = self._clocks.held
        if began is None or _lasted_ms(now, began.hold) <= self.patience_ms:
            return None
        span, until_ms = began.span, now.wall_ms
        passed_ms = now.listening_ms - span.listening_ms
        since_ms = span.wall_ms
        if until_ms - since_ms < passed_ms - _DRIFT_MS:  # the wall clock stepped back
            since_ms = until_ms - passed_ms
        writer, how = self._last or (None, None)
        if (
            goes_on or end is not None
        ):  # one that still holds, if there is one from the beginning
            holders = (one for one in self._progress.holders if one not in self._newcomers)
            writer = next(holders, writer)
        if writer is None or until_ms == since_ms:
            return None
        unheard_ms = until_ms - since_ms - passed_ms
        number = self.paced.spans + 1
        if not goes_on:
            self.paced = self.paced._replace(spans=number)
        last_ms = now.listening_ms + goes_on
        return Hold(
            number=number,
            since_ms=since_ms,
            until_ms=until_ms,
            began_ms=min(began.hold.wall_ms, since_ms),
            held_ms=self._clocks.counted_ms(now.listening_ms) - span.counted_ms,
            watermark=watermark,
            reached=reached,
            writer=writer.name,
            others=max(0, self._others),
            silence_ms=began.silence_ms,
            reported=span.listening_ms < writer.noted.spoke_ms < last_ms,
            unheard_ms=unheard_ms if unheard_ms >= _DRIFT_MS else 0,
            end=None if goes_on else end or how,
        )


def _lasted_ms(now: Now, since: Moment) -> int:
    """Return how long ago a moment was; where the wall clock stepped back, listening time says it."""
    return max(now.wall_ms - since.wall_ms, now.listening_ms - since.listening_ms)
