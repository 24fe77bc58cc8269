"""Aggregation: from the reports of writers to marks.

`Aggregator` holds one stream's writers and kept reports. Its methods record all that happens;
`Aggregator.run_pass` concludes marks from it. It is pure: no I/O, both clocks injected, and what
has to be stored is returned by `Aggregator.take_changes`.

A report costs O(log writers + entries it changes), a mark O(its cut), a pass what has changed
since the one before it: never writers times segments.
"""

from collections.abc import Iterable, Iterator, Sequence

from tidegauge.aggregation.acceptance import (
    Acceptance,
    check_incarnation,
    reached_by,
    sealed_topology,
)
from tidegauge.aggregation.changelog import Changelog
from tidegauge.aggregation.changes import Changes, Paced, StoredAggregation
from tidegauge.aggregation.clocks import HoldClocks
from tidegauge.aggregation.intake import Intake, SignedReport
from tidegauge.aggregation.marking import Marking
from tidegauge.aggregation.membership import Membership
from tidegauge.aggregation.outcomes import PassOutcome, Registration
from tidegauge.aggregation.parts import Parts
from tidegauge.aggregation.passes import Passes
from tidegauge.aggregation.progress import Progress
from tidegauge.aggregation.readings import Readings
from tidegauge.aggregation.replay import Replay
from tidegauge.aggregation.roster import Roster
from tidegauge.aggregation.running_cut import RunningCut
from tidegauge.aggregation.settings import StreamSettings
from tidegauge.aggregation.writers import Now, Writer
from tidegauge.explain.inspection import Inspection
from tidegauge.explain.slowest import Slowest
from tidegauge.holds import Hold
from tidegauge.lattice import DownSet, cut_of, down_set
from tidegauge.marks import Mark
from tidegauge.states import WriterState
from tidegauge.topology import Position, Topology


class Aggregator:
    """The aggregation of one stream.

    Parameters
    ----------
    stream
        Its name, for messages.
    settings
        How reports become marks.
    topology
        Its segments.
    """

    def __init__(self, stream: str, settings: StreamSettings, topology: Topology) -> None:
        self.stream = stream
        self.settings = settings
        self.topology = topology
        self._roster = Roster()
        self._cut = RunningCut()
        self._clocks = HoldClocks()
        self._progress = Progress()
        self._slow = Slowest()
        self._changelog = Changelog(self._roster, self._cut, self._clocks)
        parts = Parts(self._roster, self._cut, self._progress, self._clocks, self._changelog)
        self._marking = Marking(parts)
        self._members = Membership(parts, self._marking)
        self._intake = Intake(parts, self._marking, self._members)
        self._passes = Passes(parts, self._marking, self._members)
        self._acceptance = self._acceptance_now()

    @classmethod
    def restore(
        cls,
        stream: str,
        settings: StreamSettings,
        topology: Topology,
        stored: StoredAggregation,
    ) -> "Aggregator":
        """Make the aggregation that wrote all this, as of its last transaction."""
        self = cls(stream, settings, topology)
        self._marking.restore(stored.newest, topology)
        self._acceptance = self._acceptance_now()
        replay = Replay(self.watermark, self._clocks)
        for entry in stored.entries:
            replay.take_in(entry)
        replay.hand_over(self._roster, self._cut, self._intake.keep)
        self._changelog.restore(replay.serial, replay.length)
        for writer in self._roster:
            self._members.classify(writer)
        self._clocks.settle()
        self._members.departures.restore(self._roster)
        self._passes.restore(replay.state)
        if self.final:
            self.drop_reports()
        return self

    @property
    def newest(self) -> Mark | None:
        """The newest mark."""
        return self._marking.newest

    @property
    def watermark(self) -> int | None:
        """``lower`` of the newest mark, ms; None before the first."""
        return self._marking.watermark

    @property
    def revision(self) -> int:
        """Of the newest mark; 0 before the first."""
        return self._marking.revision

    @property
    def final(self) -> bool:
        """Whether the stream is sealed."""
        return self._marking.final

    def note_time(
        self,
        writer: str,
        time: int,
        position: Position,
        *,
        now: Now,
        incarnation: int | None = None,
        tails: Position | None = None,
        appended: Position | None = None,
    ) -> None:
        """Accept a report: what the writer writes after the position is at or above the time.

        Parameters
        ----------
        writer
            Its stable name.
        time
            Event time, ms.
        position
            Only the segments that changed need be named.
        now
            Both clocks.
        incarnation
            From its registration; None if it never registered.
        tails
            Appended lengths that bound the position; None where they are not known.
        appended
            What the name appended to the embedded log before, if the report begins an
            incarnation of it.

        Raises
        ------
        ReportRefusedError
            One of the refusals of section 2 of the rules; nothing has changed then.
        """
        record = self._roster.find(writer)
        counts = self._acceptance.check(
            writer,
            record,
            time=time,
            position=position,
            incarnation=incarnation,
            wall_ms=now.wall_ms,
            tails=tails,
        )
        if record is None:
            record = self._roster.add(writer, incarnation or 0)
        self._members.go_on_as(record, incarnation)
        self._members.join_former(record, self._down_set(appended))
        self._intake.take_one(record, time, counts, now.wall_ms)
        self._passes.due = True

    def note_times(
        self, reports: Sequence[SignedReport], *, now: Now, tails: Position | None = None
    ) -> Iterator[int]:
        """Accept the usual reports among some, in order; see `Intake`.

        Yields
        ------
        int
            The place of each that is not usual: give it to `note_time` before going on.
        """
        self._passes.due = True
        bounds = self._acceptance.bounds(now.wall_ms, tails, self._marking.watermark)
        return self._intake.take(reports, bounds, now.wall_ms)

    def register(
        self,
        writer: str,
        *,
        now: Now,
        time: int | None = None,
        appended: Position | None = None,
        above: int = 0,
        registration_id: str | None = None,
    ) -> Registration:
        """Start a new incarnation of a writer, with a fresh record.

        The race: an answer is lost, the writer registers once more and works, and the first request
        is carried out behind that. It must not fence its own writer. So a registration that is
        known by its id changes nothing, and is answered with the incarnation that it made.

        Parameters
        ----------
        writer
            Its stable name.
        now
            Both clocks.
        time
            The same as a first report with an empty position right after it.
        appended
            What former incarnations appended to the embedded log, reported or not.
        above
            The highest incarnation that appended.
        registration_id
            The same for each repetition; None makes a new incarnation each time.

        Raises
        ------
        ReportRefusedError
            If the stream is sealed or the time is refused; nothing has changed then.
        """
        record = self._roster.find(writer)
        if record is not None and registration_id is not None:
            made = record.life.made_by(registration_id)
            if made is not None:
                return self._answer(record, made, is_repeated=True)
        self._acceptance.refuse_if_sealed()
        if time is not None:
            self._acceptance.check_first_time(writer, time, now.wall_ms)
        known = 0 if record is None else record.life.incarnation
        record = self._members.enroll(
            writer,
            max(known, self._roster.forgotten_incarnation, above) + 1,
            registration_id=registration_id,
            appended=self._down_set(appended),
            now=now,
        )
        if time is not None:
            self._intake.take_one(record, time, {}, now.wall_ms)
        self._passes.due = True
        return self._answer(record, record.life.incarnation)

    def introduce(self, writer: str, incarnation: int, *, appended: Position, now: Now) -> None:
        """Add a new writer as if it had registered, by the incarnation that it names."""
        self._acceptance.refuse_if_sealed()
        self._members.enroll(writer, incarnation, appended=self._down_set(appended), now=now)
        self._passes.due = True

    def leave(
        self,
        writer: str,
        *,
        now: Now,
        time: int | None = None,
        position: Position | None = None,
        incarnation: int | None = None,
        tails: Position | None = None,
        ended: bool = False,
    ) -> None:
        """Record that a writer leaves: it will write no more. See `note_time` for the parameters.

        With ``ended``, it leaves because its source has ended.

        Raises
        ------
        UnknownWriterError
            If the stream does not know the writer.
        ReportRefusedError
            If the incarnation or the last report is refused; the writer has not left then.
        """
        record = self._roster.get(writer)
        if time is not None:
            self.note_time(
                writer, time, position or {}, now=now, incarnation=incarnation, tails=tails
            )
        else:
            check_incarnation(writer, record.life.incarnation, incarnation)
            self._members.go_on_as(record, incarnation)
        self._roster.hear(record, now.wall_ms)
        self._members.go_out(record, "ended" if ended else "left", now.listening_ms)
        self._passes.due = True

    def expire(self, writer: str, *, now: Now) -> None:
        """Expire a writer manually; what it reported still counts.

        Raises
        ------
        UnknownWriterError
            If the stream does not know the writer.
        """
        record = self._roster.get(writer)
        self._members.go_out(record, "expired", now.listening_ms)
        record.life.grace = False
        self._passes.due = True

    def run_pass(self, now: Now) -> PassOutcome:
        """Run a pass: look at approaches and clocks, expire, emit marks, forget."""
        return self._passes.run(self.topology, self.settings, now)

    def seal(self, lengths: Position, now: Now) -> PassOutcome:
        """End the stream: a pass, and then the final mark at the end of time.

        Parameters
        ----------
        lengths
            Of every segment that still grows.
        now
            Both clocks.

        Returns
        -------
        PassOutcome
            Of the pass; the final mark is the last one.

        Raises
        ------
        InvalidPositionError
            If a length is missing, or below the newest cut or what a writer reported.
        StreamSealedError
            If it is sealed.
        """
        self._acceptance.refuse_if_sealed()
        newest = {} if self.newest is None else self.newest.cut
        sealed = sealed_topology(self.topology, lengths, self._roster, newest, now)
        outcome = self.run_pass(now)
        self.change_topology(sealed)
        cut = cut_of(
            sealed, {n: segment.sealed_length or 0 for n, segment in sealed.segments.items()}
        )
        outcome.holds.extend(self._passes.seal_holds(now))
        final = self._marking.end(cut, sealed, now)
        self.drop_reports()
        self._acceptance = self._acceptance_now()
        self._passes.due = True
        outcome.marks.append(final)
        return outcome

    def change_settings(self, settings: StreamSettings) -> None:
        """Change the settings."""
        self.settings = settings
        self._acceptance = self._acceptance_now()
        self._members.departures.reconsider()
        # What passed until now does so by former settings.
        self._changelog.restate_clocks = True
        self._passes.due = True

    def change_topology(self, topology: Topology) -> None:
        """Change the topology, which has more segments now."""
        self.topology = topology
        self._acceptance = self._acceptance_now()

    @property
    def holds_run(self) -> bool:
        """Whether the clock of any writer runs, so that listening time matters."""
        return bool(self._clocks)

    def next_deadline(self) -> int | None:
        """Return at which listening time a clock or a retention runs out, ms."""
        hold = self._clocks.deadline
        due = self._members.departures.first_due(self.settings.writer_retention_ms)
        if hold is None or (due is not None and due < hold):
            return due
        return hold

    def __contains__(self, writer: object) -> bool:
        return writer in self._roster

    def __len__(self) -> int:
        return len(self._roster)

    def incarnation(self, writer: str) -> int:
        """Return a writer's incarnation; raises `UnknownWriterError`."""
        return self._roster.get(writer).life.incarnation

    def reported(self, writer: str) -> Position:
        """Return how far a writer's present incarnation reported; raises `UnknownWriterError`."""
        return self._roster.get(writer).noted.position

    def go_on(self, writer: str) -> None:
        """Record that a writer appends: it has not ended, though it said so."""
        record = self._roster.find(writer)
        if record is not None:
            self._members.go_on(record)

    def has_ended(self, writer: str) -> bool:
        """Whether a writer's source has ended."""
        record = self._roster.find(writer)
        return record is not None and record.life.presence == "ended"

    @property
    def unended(self) -> Iterator[str]:
        """The names of the writers that have not ended."""
        return self._roster.unended()

    @property
    def all_ended(self) -> bool:
        """Whether every writer that is known has ended, and they are as many as there must be."""
        ended = self._roster.presences["ended"]
        return ended == len(self) > 0 and ended >= self.settings.min_writers

    @property
    def written(self) -> Position:
        """The offsets that marks and writers reach in the segments that grow."""
        newest = {} if self.newest is None else self.newest.cut
        reached = reached_by(self._roster, newest)
        return {number: reached.get(number, 0) for number in self.topology.unsealed}

    def state(self, writer: str) -> WriterState:
        """Return a writer's state; one that is forgotten stays expired."""
        return self.states([writer])[0]

    def states(self, writers: Iterable[str]) -> list[WriterState]:
        """Return the states of some writers."""
        return [
            "active"  # nearly always, and said without a call
            if record is not None
            and record.stand.ahead
            and record.life.presence == "live"
            and record.noted.time is not None
            else self._progress.state(record)
            for record in map(self._roster.find, writers)
        ]

    def current_hold(self, now: Now) -> Hold | None:
        """Return the span that goes on, if its hold counts by now."""
        return self._passes.holds.current(now, self.watermark)

    @property
    def paced(self) -> Paced:
        """How the watermark has moved lately."""
        return self._passes.holds.paced

    def inspect(self, now: Now) -> Inspection:
        """Return a view of the stream as of one moment, for operators."""
        return Inspection(
            now=now,
            stream=self.stream,
            settings=self.settings,
            topology=self.topology,
            newest=self.newest,
            reach=self._cut.reach,
            roster=self._roster,
            progress=self._progress,
            readings=Readings(
                self._clocks,
                self._passes.view(self.settings, now),
                None if self.newest is None else self.newest.marked_ms,
            ),
            slow=self._slow,
            patience_ms=self._passes.holds.patience_ms,
        )

    @property
    def pass_due(self) -> bool:
        """Whether something changed that a pass may conclude from."""
        return self._passes.due

    @property
    def kept_reports(self) -> int:
        """How many reports above the watermark are kept."""
        return len(self._cut)

    def drop_reports(self) -> None:
        """Drop all reports: the stream is sealed, or this aggregation is used no more.

        Reports and writers refer to each other: left alone, they would all be there until the
        next full garbage collection.
        """
        self._cut.drop_of_all(self._roster)

    def take_changes(self, *, stagger: int = 0, compact: bool = False) -> Changes:
        """Return what storage must write in one transaction; see `Changelog.take`."""
        return self._changelog.take(self._passes.state, stagger=stagger, compact=compact)

    def _acceptance_now(self) -> Acceptance:
        return Acceptance(
            self.stream, self.final, self.topology, self.settings.max_future_skew_ms
        )

    def _answer(
        self, record: Writer, incarnation: int, *, is_repeated: bool = False
    ) -> Registration:
        return Registration(
            incarnation,
            record.stand.at if record.life.live else None,
            self.watermark,
            self.state(record.name),
            record.noted.whole_position,
            is_repeated,
        )

    def _down_set(self, appended: Position | None) -> DownSet:
        return down_set(self.topology, appended) if appended else {}
