"""The members of a stream: writers join, restart, go out, come back, and are forgotten."""

from tidegauge.aggregation import approaches
from tidegauge.aggregation.changes import UNSOUGHT, Presence
from tidegauge.aggregation.clocks import View
from tidegauge.aggregation.departures import Departures
from tidegauge.aggregation.marking import Marking
from tidegauge.aggregation.parts import Parts
from tidegauge.aggregation.writers import Now, Writer
from tidegauge.lattice import DownSet, raise_to
from tidegauge.states import Clock


class Membership:
    """Changes which writers are live, left and expired.

    Parameters
    ----------
    parts, marking
        Of the stream's aggregation.

    Attributes
    ----------
    departures
        The writers that left or expired.
    reached
        What the others have reached, as the latest pass found it, ms; `UNSOUGHT` until somebody
        needs it.
    """

    def __init__(self, parts: Parts, marking: Marking) -> None:
        self.departures = Departures()
        self.reached: int | None = None
        self._roster, self._cut, self._progress, self._clocks, self._changelog = parts
        self._marking = marking

    def classify(self, writer: Writer) -> None:
        """Put a writer that changed into the sets that it belongs to."""
        self._progress.classify(writer, self._marking.watermark)

    def enroll(
        self,
        name: str,
        incarnation: int,
        *,
        registration_id: str | None = None,
        appended: DownSet,
        now: Now,
    ) -> Writer:
        """Begin an incarnation of a writer that registers; one that nobody knew has grace."""
        writer = self._roster.find(name)
        if writer is None:
            writer = self._roster.add(name, 0, "expired")
            writer.life.grace = True
        self.go_on_as(writer, incarnation)
        if registration_id is not None:
            writer.life.remember(registration_id)
        self.join_former(writer, appended)
        writer.noted.heard_ms = now.wall_ms
        if writer.life.grace:
            writer.life.grace = False
            if not writer.life.live:
                self.come_back(writer)
                writer.stand.at, writer.stand.by_report = self._first_stand(), False
            self._clocks.start_anew(writer)
        self.classify(writer)
        return writer

    def go_on_as(self, writer: Writer, incarnation: int | None) -> None:
        """Begin a new incarnation of a writer, if it is newer, and drop what the former one keeps."""
        if incarnation is None or incarnation <= writer.life.incarnation:
            return
        self.find_reached()
        self._cut.drop_all(writer)
        writer.life.restart(incarnation)
        self.go_on(writer)
        reported = writer.noted.restart(self._marking.revision)
        self._cut.release(reported, writer.noted.former_time)
        self._roster.change(writer)
        self.classify(writer)

    def go_on(self, writer: Writer) -> None:
        """Record that a writer does something: if it had ended, it has only left."""
        if writer.life.presence == "ended":
            self._roster.place(writer, "left")

    def join_former(self, writer: Writer, appended: DownSet) -> None:
        """Count what was appended under a writer's name as written by a former incarnation."""
        if appended:
            raise_to(writer.noted.former_position, appended)
            self._cut.release(appended, None)

    def give_grace(self, writer: Writer, time: int) -> None:
        """Give a writer grace, if a report of this time shows that it goes on."""
        life, ended = writer.life, writer.noted.ended_since(self._marking.revision)
        watermark = self._marking.watermark
        is_above = watermark is None or time > watermark
        gives = is_above and (ended is None or time > ended)
        if not life.live:
            gives = gives or life.gone_watermark is None or time > life.gone_watermark
        if gives:
            life.grace = True
            self._roster.change(writer)

    def come_back(self, writer: Writer) -> None:
        """Make a writer live that was out."""
        self.find_reached()
        writer.life.come_back()
        self.departures.remove(writer)
        self._roster.place(writer, "live")

    def go_out(self, writer: Writer, presence: Presence, now_ms: int) -> None:
        """Make a writer left, ended or expired; it may be so already."""
        self.find_reached()
        writer.life.go_out(writer.noted, now_ms, self._marking.watermark)
        self.departures.add(writer)
        self._clocks.clear(writer)
        self._roster.place(writer, presence)
        self.classify(writer)

    def let_approaching_in(self, view: View) -> bool:
        """Make those live whose pace suffices, and return whether there are any."""
        came = False
        for writer in self._clocks.heard:
            if writer.life.presence == "live":
                continue
            self._roster.change(writer)
            if approaches.arrives(writer, view):
                writer.life.grace = False
                self.come_back(writer)
                self.classify(writer)
                came = True
        return came

    def expire_run_out(self, view: View) -> dict[str, Clock]:
        """Expire those whose clocks have run out, and return by their names which clock it was."""
        expired: dict[str, Clock] = {}
        holders = self._progress.holders
        for group in self._clocks.take_run_out(view, holders, self._roster.live):
            for writer in group:
                expired[writer.name] = self._clocks.run_out(writer, view)
                self.go_out(writer, "expired", view.now_ms)
        return expired

    def forget(self, *, gone_by_ms: int) -> list[str]:
        """Forget the writers that went by then and that the newest mark covers; return their names."""
        if not self.departures:
            return []
        marking = self._marking
        forgotten = self.departures.take_forgotten(
            gone_by_ms=gone_by_ms, covered=marking.covered, revision=marking.revision
        )
        for writer in forgotten:
            self._cut.drop_all(writer)
            self._progress.forget(writer)
            self._clocks.forget(writer)
            self._roster.forget(writer)
        self._cut.forget_upper(forgotten, marking.newest, self._roster)
        return sorted(writer.name for writer in forgotten)

    def end_pass(self) -> None:
        """Record the end of a pass: what changes from here on is later than it."""
        is_held = self._marking.watermark is None or self._progress.behind
        self.reached = None if is_held else UNSOUGHT

    def find_reached(self) -> None:
        """Find the least that live writers stood at by a report of their own, after the pass.

        To visit all of them at every pass would cost as much as there are. So it is done once
        after a pass, before somebody registers or changes otherwise than by going on. Until then
        a writer that reported counts with where that pass found it, and the others have not moved.
        Only what is above the watermark matters, and only while others keep it from rising.
        """
        if self.reached != UNSOUGHT:
            return
        progress, heard = self._progress, self._clocks.heard
        noted = (
            writer.noted.found_time if writer in heard else writer.stand.at
            for writer in (*progress.joining, *progress.ahead)
            if writer.life.live and writer.stand.by_report
        )
        self.reached = min((time for time in noted if time is not None), default=None)
        self._changelog.restate_clocks = True

    def _first_stand(self) -> int | None:
        """Return where a writer stands that comes to the stream: what the others have reached."""
        watermark = self._marking.watermark
        if watermark is None or self.reached is None:
            return watermark
        return max(watermark, self.reached)
