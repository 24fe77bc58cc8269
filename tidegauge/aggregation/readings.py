"""What the clocks of writers show, for operators."""

from dataclasses import dataclass

from tidegauge.aggregation.clocks import HoldClocks, View
from tidegauge.aggregation.writers import Writer
from tidegauge.states import Clock


@dataclass(frozen=True, slots=True)
class Readings:
    """The clocks of a stream's writers as of one moment."""

    clocks: HoldClocks
    view: View

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
        return self.clocks.first_end([writer], self.view)

    def stopped_ms(self) -> dict[Clock, int | None]:
        """Return for how long nobody has gone on, for each clock whose time stops; else None."""
        return {
            kind: clock.time.stopped_ms(self.view.now_ms, setting_ms)
            for kind, clock, setting_ms in self.clocks.kinds(self.view)
        }

    def nearer(self, writer: Writer) -> Clock | None:
        """Return which clock is nearer its end: the one that gets there if nothing else happens.

        Otherwise the one that shows more of its setting: a writer that beats is not about to be
        dropped for silence, however short the timeout is.
        """
        running: list[tuple[bool, float, Clock]] = []
        for kind, clock, setting_ms in self.clocks.kinds(self.view):
            shown_ms = clock.shown(writer, self.view.now_ms, setting_ms)
            if shown_ms is not None and setting_ms is not None:
                end = clock.end_of(writer, setting_ms)
                running.append((end is not None, shown_ms / setting_ms, kind))
        return max(running, key=lambda reading: reading[:2])[2] if running else None

    def run_out_with(self, writer: Writer, most: int) -> int:
        """Count the others whose clock runs out with a writer's, or before: of so many at most."""
        nearer = self.nearer(writer)
        for kind, clock, _ in self.clocks.kinds(self.view):
            if kind == nearer:
                return clock.count_before(writer, most) - 1
        return 0

    def remaining_ms(self, writer: Writer) -> int | None:
        """Return what remains of a writer's clock that is nearer its end, while its time passes."""
        nearer = self.nearer(writer)
        for kind, clock, setting_ms in self.clocks.kinds(self.view):
            shown_ms = clock.shown(writer, self.view.now_ms, setting_ms)
            if kind == nearer and shown_ms is not None and setting_ms is not None:
                stopped = clock.time.stopped_ms(self.view.now_ms, setting_ms) is not None
                return None if stopped else max(0, setting_ms - shown_ms)
        return None

    def silent_ms(self) -> int | None:
        """Return for how long no writer has reported, once nobody is dropped before one does."""
        return self.clocks.silent_ms(self.view)

    def waited_ms(self) -> int:
        """Return for how long somebody has waited, or since the last silence."""
        began_ms = self.clocks.began_ms
        return 0 if began_ms is None else self.view.now_ms - began_ms
