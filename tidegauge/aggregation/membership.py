"""Who belongs to a stream: writers join, restart, go out, come back, and are forgotten.

What they reported is elsewhere, in `RunningCut`: whoever restarts or forgets a writer also drops
its kept reports there.
"""

from tidegauge.aggregation import approaches
from tidegauge.aggregation.changes import Standing
from tidegauge.aggregation.clocks import HoldClocks, View
from tidegauge.aggregation.departures import Departures
from tidegauge.aggregation.progress import Progress
from tidegauge.aggregation.roster import Roster
from tidegauge.aggregation.writers import Writer
from tidegauge.lattice import DownSet


class Membership:
    """Changes who is live, left and expired.

    Parameters
    ----------
    roster, progress, clocks
        Of the stream's aggregation.

    Attributes
    ----------
    departures
        Who left or expired.
    reached
        What the others have reached, as the latest pass found it, ms.
    """

    def __init__(self, roster: Roster, progress: Progress, clocks: HoldClocks) -> None:
        self.departures = Departures()
        self.reached: int | None = None
        self._roster = roster
        self._progress = progress
        self._clocks = clocks

    def restart(self, writer: Writer, incarnation: int, revision: int) -> DownSet:
        """Begin a new incarnation, and return what the former one reported."""
        writer.life.restart(incarnation)
        self._roster.change(writer)
        return writer.noted.restart(revision)

    def register(self, writer: Writer, wall_ms: int, watermark: int | None) -> None:
        """Record a registration: with grace it makes the writer live, or starts its clocks anew."""
        self._roster.hear(writer, wall_ms)
        if writer.life.grace:
            writer.life.grace = False
            self.admit(writer, watermark)
        self._progress.classify(writer, watermark)

    def introduce(
        self, name: str, incarnation: int, *, wall_ms: int, watermark: int | None
    ) -> Writer:
        """Add a writer as if it had registered."""
        writer = self._roster.add(name, incarnation, "expired")
        self._roster.hear(writer, wall_ms)
        self.admit(writer, watermark)
        self._progress.classify(writer, watermark)
        return writer

    def admit(self, writer: Writer, watermark: int | None) -> None:
        """Start the clocks of a writer anew, and make it live where the others are, if it is out."""
        if not writer.life.live:
            self.come_back(writer)
            writer.stand.at, writer.stand.by_report = self._told(watermark), False
        self._clocks.start_anew(writer)

    def give_grace(
        self, writer: Writer, time: int, watermark: int | None, revision: int
    ) -> None:
        """Let a writer come back once more, if a report of this time shows that it goes on."""
        life, ended = writer.life, writer.noted.ended_since(revision)
        is_above = watermark is None or time > watermark
        gives = is_above and (ended is None or time > ended)
        if not life.live:
            gives = gives or life.gone_watermark is None or time > life.gone_watermark
        if gives:
            life.grace = True
            self._roster.change(writer)

    def come_back(self, writer: Writer) -> None:
        """Count a writer again that was out."""
        writer.life.come_back()
        self.departures.remove(writer)
        self._roster.stand(writer, "live")

    def go_out(
        self, writer: Writer, standing: Standing, now_ms: int, watermark: int | None
    ) -> None:
        """Count a writer no longer; it may be out already."""
        writer.life.go_out(writer.noted, now_ms, watermark)
        self.departures.add(writer)
        self._clocks.clear(writer)
        self._roster.stand(writer, standing)
        self._progress.classify(writer, watermark)

    def let_approaching_in(self, view: View) -> bool:
        """Make those live whose pace suffices, and return whether there are any."""
        came = False
        for writer in self._clocks.heard:
            if writer.life.standing == "live":
                continue
            self._roster.change(writer)
            if approaches.arrives(writer, view):
                writer.life.grace = False
                self.come_back(writer)
                self._progress.classify(writer, view.watermark)
                came = True
        return came

    def expire_run_out(self, view: View) -> list[str]:
        """Expire those whose clocks have run out, and return their names."""
        expired: list[str] = []
        holders = self._progress.holders
        for group in self._clocks.take_run_out(view, holders, self._roster.live):
            for writer in group:
                self.go_out(writer, "expired", view.now_ms, view.watermark)
                expired.append(writer.name)
        return sorted(expired)

    def forget(self, *, gone_by_ms: int, covered: DownSet, revision: int) -> list[Writer]:
        """Forget who is due, and return them; see `Departures.take_forgotten`."""
        forgotten = self.departures.take_forgotten(
            gone_by_ms=gone_by_ms, covered=covered, revision=revision
        )
        for writer in forgotten:
            self._progress.forget(writer)
            self._clocks.forget(writer)
            self._roster.forget(writer)
        return forgotten

    def find_reached(self, watermark: int | None) -> None:
        """Find the least that live writers stand at by a report of their own.

        Only what is above the watermark matters, and only while others keep it from rising.
        """
        progress, self.reached = self._progress, None
        if watermark is None or progress.behind:
            return
        noted = (
            one.stand.at
            for one in (*progress.joining, *progress.ahead)
            if one.life.live and one.stand.by_report and one.stand.at is not None
        )
        self.reached = min(noted, default=None)

    def _told(self, watermark: int | None) -> int | None:
        """Return where a writer stands that comes to the stream: what the others have reached."""
        if watermark is None or self.reached is None:
            return watermark
        return max(watermark, self.reached)
