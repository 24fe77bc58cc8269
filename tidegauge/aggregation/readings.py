"""What the clocks of writers show, for operators."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from tidegauge.aggregation.clocks import HoldClock, HoldClocks, View
from tidegauge.aggregation.writers import Writer
from tidegauge.states import Clock


class Reading(NamedTuple):
    """A clock of one writer that runs."""

    kind: Clock
    clock: HoldClock
    shown_ms: int
    setting_ms: int


@dataclass(frozen=True, slots=True)
class Readings:
    """The clocks of a stream's writers as of one moment.

    Attributes
    ----------
    clocks, view
        Of the stream.
    marked_ms
        Wall clock of the newest mark; None before the first.
    """

    clocks: HoldClocks
    view: View
    marked_ms: int | None

    def shown(self, writer: Writer) -> dict[Clock, int | None]:
        """Return what each clock of a writer shows, ms; None if it does not run."""
        return {
            kind: clock.shown(writer, self.view.now_ms, setting_ms)
            for kind, clock, setting_ms in self.clocks.kinds(self.view)
        }

    def end_of(self, writer: Writer) -> int | None:
        """Return the listening time at which a clock of a writer runs out.

        None if none runs, or if somebody has to go on before.
        """
        ends = (
            reading.clock.end_of(writer, reading.setting_ms)
            for reading in self._judging(writer)
        )
        return min((end for end in ends if end is not None), default=None)

    def stopped_ms(self) -> dict[Clock, int | None]:
        """Return for how long nobody has gone on, for each clock whose time stops; else None."""
        return {
            kind: clock.time.stopped_ms(self.view.now_ms, setting_ms)
            for kind, clock, setting_ms in self.clocks.kinds(self.view)
        }

    def nearer(self, writer: Writer) -> Reading | None:
        """Return the clock that is nearer its end: the one that gets there if nothing else happens.

        Otherwise the one that shows more of its setting.
        """

        def nearness(reading: Reading) -> tuple[bool, float]:
            ends = reading.clock.end_of(writer, reading.setting_ms) is not None
            return ends, reading.shown_ms / reading.setting_ms

        return max(self._judging(writer), key=nearness, default=None)

    def left_ms(self, writer: Writer) -> float:
        """Return the least that is left of a clock that a writer is judged by; inf without one."""
        left = (reading.setting_ms - reading.shown_ms for reading in self._judging(writer))
        return min(left, default=inf)

    def run_out_with(self, writer: Writer, most: int) -> int:
        """Count the others whose clock runs out with a writer's, or before: of so many at most."""
        nearer = self.nearer(writer)
        return 0 if nearer is None else nearer.clock.count_before(writer, most) - 1

    def remaining_ms(self, writer: Writer) -> int | None:
        """Return what remains of a writer's clock that is nearer its end, while its time passes."""
        nearer = self.nearer(writer)
        if nearer is None:
            return None
        stopped_ms = nearer.clock.time.stopped_ms(self.view.now_ms, nearer.setting_ms)
        return max(0, nearer.setting_ms - nearer.shown_ms) if stopped_ms is None else None

    def silent_ms(self) -> int | None:
        """Return for how long no writer has reported, once nobody is dropped before one does."""
        return self.clocks.silent_ms(self.view)

    def held_ms(self, *, whole: bool) -> int:
        """Return for how long the watermark has been held; see `HoldClocks.held_ms`."""
        return self.clocks.held_ms(self.view.now_ms, whole=whole)

    def _judging(self, writer: Writer) -> Iterator[Reading]:
        """List the clocks that a writer is judged by.

        One that reports is not about to be dropped for silence, though that clock shows some of
        each pause between its reports. It reports if it has done so since the newest mark, from when
        on it holds, and no report is missing since: clients repeat the last one after a third of the
        timeout.
        """
        heard_ms, marked_ms = writer.noted.heard_ms, self.marked_ms
        reports = writer.noted.time is not None and (heard_ms or 0) > (marked_ms or inf)
        for kind, clock, setting_ms in self.clocks.kinds(self.view):
            shown_ms = clock.shown(writer, self.view.now_ms, setting_ms)
            if shown_ms is None or setting_ms is None:
                continue
            if not (kind == "silence" and reports and 2 * shown_ms <= setting_ms):
                yield Reading(kind, clock, shown_ms, setting_ms)
