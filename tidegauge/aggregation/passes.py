"""The pass: look at approaches and clocks, expire, emit marks, forget."""

from tidegauge.aggregation.changes import ClockState, Look
from tidegauge.aggregation.clocks import View
from tidegauge.aggregation.holds import Holds
from tidegauge.aggregation.marking import Marking
from tidegauge.aggregation.membership import Membership
from tidegauge.aggregation.outcomes import PassOutcome
from tidegauge.aggregation.parts import Parts
from tidegauge.aggregation.settings import StreamSettings
from tidegauge.aggregation.writers import Now
from tidegauge.holds import Hold
from tidegauge.topology import Topology


class Passes:
    """Runs passes, and gives the looks to the changelog.

    Parameters
    ----------
    parts, marking, members
        Of the stream's aggregation.

    Attributes
    ----------
    due
        Whether something changed that a pass may conclude from.
    holds
        Who holds the watermark.
    """

    def __init__(self, parts: Parts, marking: Marking, members: Membership) -> None:
        self.due = False
        self._progress, self._clocks = parts.progress, parts.clocks
        self._changelog = parts.changelog
        self._marking = marking
        self._members = members
        self._stored_state = ClockState()
        self.holds = Holds(parts)

    def restore(self, state: ClockState) -> None:
        """Continue after the look that is stored last."""
        self._members.reached, self._stored_state = state.reached, state
        self.holds.restore(state.paced)
        self.due = True

    @property
    def state(self) -> ClockState:
        """What is stored of the clocks, as of now."""
        return self._clocks.state(self._members.reached, self.holds.paced)

    def view(self, settings: StreamSettings, now: Now) -> View:
        """Return the stream as a look would see it now."""
        is_allowed = self._marking.is_allowed(settings.min_writers)
        return View(
            now_ms=now.listening_ms,
            timeout_ms=settings.aggregation_timeout_ms,
            limit_ms=settings.hold_limit_ms,
            watermark=self._marking.watermark,
            revision=self._marking.revision,
            greatest=self._progress.greatest if is_allowed else None,
        )

    def run(self, topology: Topology, settings: StreamSettings, now: Now) -> PassOutcome:
        """Run a pass."""
        members = self._members
        before = self._stored_state._replace(reached=members.reached)
        members.reached = None  # of the former pass: nobody needs it any more
        came = members.let_approaching_in(self.view(settings, now))
        view, stirred = self.view(settings, now), self._clocks.stirred
        entered = self._changelog.entered
        fallen_to = [writer.name for writer in self._clocks.look(view, self._progress.ahead)]
        ran_out, before_ms = members.expire_run_out(view), self._marking.watermark
        looked = self.holds.look(now, before_ms, ran_out=ran_out)
        marks = self._marking.emit(topology, settings, now)
        settled = self.holds.settle(now, before_ms, marks, is_held=self._is_held(settings))
        members.end_pass()
        state = self.state
        # A look that finds nothing lets time pass, which the next one does as well; a transaction
        # that only deletes must not grow by it, where the disk is full.
        if stirred or fallen_to or ran_out or state.is_other_than(before):
            self._changelog.look(
                Look(entered, view.now_ms, view.watermark, view.revision, fallen_to, state)
            )
            self._stored_state = state
        holds = self._written(looked, settled)
        retention_ms, forgotten = settings.writer_retention_ms, list[str]()
        if retention_ms is not None:
            forgotten = members.forget(gone_by_ms=now.listening_ms - retention_ms)
        self.due = bool(came or ran_out or forgotten)
        long_hold = self.holds.became_long(now, self._marking.watermark)
        return PassOutcome(marks, sorted(ran_out), forgotten, holds, long_hold)

    def seal_holds(self, now: Now) -> list[Hold]:
        """End the hold that goes on: the stream is about to be sealed."""
        watermark = self._marking.watermark
        return self._written(self.holds.settle(now, watermark, [], is_held=False, end="sealed"))

    def _written(self, *holds: Hold | None) -> list[Hold]:
        """Give spans that ended to the changelog."""
        ended = [hold for hold in holds if hold is not None]
        self._changelog.hold(ended)
        return ended

    def _is_held(self, settings: StreamSettings) -> bool:
        progress = self._progress
        is_allowed = self._marking.is_allowed(settings.min_writers) and not self._marking.final
        return is_allowed and bool(progress.ahead and progress.holders)
