"""One stream in memory: it mirrors its rows and takes part in batches."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from math import inf
from time import monotonic
from typing import Any, NamedTuple, Protocol

from controller.access.limits import Limits
from controller.clocks import Clocks
from controller.commit.batch import Batch
from controller.commit.sequencer import Sequencer
from controller.commit.waiting import Condition
from controller.log.embedded import EmbeddedLog
from controller.log.external import ExternalLog
from controller.store import streams as storage
from controller.store.changelog import Changelogs
from controller.streams.pass_timer import PassTimer
from tidegauge.aggregation.holds import LONG_MS
from tidegauge.aggregation.outcomes import PassOutcome
from tidegauge.aggregation.settings import StreamSettings
from tidegauge.aggregation.writers import Now
from tidegauge.aggregator import Aggregator
from tidegauge.errors import (
    LogIsExternalError,
    StreamReplacedError,
    UnavailableError,
    UnknownStreamError,
)
from tidegauge.event_time import describe_span
from tidegauge.explain.situation import OddEvent
from tidegauge.holds import Hold
from tidegauge.lattice import DownSet, frontier, includes
from tidegauge.marks import Mark
from tidegauge.names import StreamName
from tidegauge.scaling_policy import Load
from tidegauge.topology import Position, Topology
from tidegauge.windows import TimeWindow
from tidegauge.wire.streams import StreamConfig, TopologyDescriptions

_AGAIN_S = 0.25
"""A pass that the database refused is due again then: it may take as long to come back."""
_BEATS_IN_TIME = 3  # one may be lost, and one late
_STAGGERED_BY = 33
"""Logs of small streams are compacted at 32 to 64 items, of each stream at another number."""
_log = logging.getLogger(__name__)


class Identity(NamedTuple):
    """What never changes of a stream."""

    key: int
    name: StreamName
    stream_id: str
    created_ms: int


class Published(NamedTuple):
    """What is durable of a stream, and so may be shown: all of one commit."""

    mark: Mark | None
    """The newest one."""
    tails: Position | None
    """The next offset of each segment; None if the log is external."""
    topology: Topology
    first_cut: Position | None
    """The stream cut at which the log begins; None if it is external."""
    config: StreamConfig
    load: Load


class SeenWindow(NamedTuple):
    """A window that was found on disk: for ever, if it has an upper end."""

    window: TimeWindow
    passed: Mark | None
    """The newest mark that the position covers."""
    following: Mark | None
    """The first mark that it does not cover."""
    revision: int
    """Of the newest mark then."""


@dataclass(slots=True)
class SeenWindows:
    """What questions for time windows found on disk; see `controller.streams.history`."""

    newest: Sequence[Mark] = ()
    """Some of the newest durable marks, oldest first."""
    lagging: dict[frozenset[tuple[int, int]], SeenWindow] = field(default_factory=dict)
    """By position, before those marks."""


class Host(Protocol):
    """What a stream uses of the controller that holds it."""

    sequencer: Sequencer
    clocks: Clocks
    limits: Limits
    changelogs: Changelogs
    ticking: set["StreamState"]
    """In which the clock of a writer runs, as far as is durable."""
    on_pass: Callable[[PassOutcome, float], None]
    """Called with the outcome of every pass, and the seconds that it took."""

    def remove(self, state: "StreamState") -> None:
        """Remove a stream, unless another has its name by now."""

    async def reload(self, state: "StreamState") -> None:
        """Make a stream what the disk says, where it may be gone."""


class StreamState:
    """One stream: its aggregation, its log, and the calls that wait for it."""

    def __init__(
        self,
        identity: Identity,
        config: StreamConfig,
        aggregator: Aggregator,
        log: EmbeddedLog | ExternalLog,
        host: Host,
    ) -> None:
        self.identity = identity
        self.config = config
        self.aggregator = aggregator
        self.log = log
        self.limits = host.limits
        self.changed = Condition()
        self.descriptions = TopologyDescriptions()
        self.load = Load()
        tails, topology = log.tails, aggregator.topology
        self.published = Published(
            mark=aggregator.newest,
            tails=None if tails is None else dict(tails),
            topology=topology,
            first_cut=_first_cut(log, topology),
            config=config,
            load=self.load,
        )
        self.windows = SeenWindows()
        self.durable = False
        self.deleted = False
        """Whether its deletion is decided."""
        self.expirations = 0
        """Writers that expired since this process read the stream back."""
        self.odd_event: OddEvent | None = None
        """The newest that was appended here with a time that is probably wrong."""
        self._host = host
        current = aggregator.current_hold(self.now())
        self._hold_ms = 0 if current is None else -current.held_ms
        self._last_pass = -inf
        self._timer = PassTimer()

    @property
    def hold_ms(self) -> int:
        """What counts of holds since this process read the stream back (8b.9)."""
        current = self.aggregator.current_hold(self.now())
        return max(0, self._hold_ms + (0 if current is None else current.held_ms))

    @property
    def watermark(self) -> int | None:
        """Of the newest durable mark, ms."""
        return None if self.published.mark is None else self.published.mark.lower

    @property
    def revision(self) -> int:
        """Of the newest durable mark; 0 before the first."""
        return 0 if self.published.mark is None else self.published.mark.revision

    @property
    def final(self) -> bool:
        """Whether a durable mark ends the stream."""
        return self.published.mark is not None and self.published.mark.final

    @property
    def durable_tails(self) -> Position:
        """The next offset of each segment, of what is durable."""
        if self.published.tails is None:
            raise LogIsExternalError(str(self.identity.name))
        return self.published.tails

    @property
    def beat_ms(self) -> int | None:
        """How often a writer repeats its last time so as not to be silent for too long."""
        timeout_ms = self.config.aggregation_timeout_ms
        return None if timeout_ms is None else max(1, timeout_ms // _BEATS_IN_TIME)

    def embedded_log(self) -> EmbeddedLog:
        """Return the embedded log, or raise `LogIsExternalError`."""
        self.refuse_if_deleted()
        if not isinstance(self.log, EmbeddedLog):
            raise LogIsExternalError(str(self.identity.name))
        return self.log

    def now(self) -> Now:
        """Read the clocks of the controller."""
        return self._host.clocks.now()

    @property
    def listening_ms(self) -> int:
        """The listening time of the controller, which continues from where it was after a take-over."""
        return self.now().listening_ms

    def check_id(self, stream_id: str | None) -> None:
        """Raise `StreamReplacedError` if the caller means another stream of this name."""
        identity = self.identity
        if stream_id is not None and stream_id != identity.stream_id:
            raise StreamReplacedError(str(identity.name), identity.stream_id, stream_id)

    def refuse_if_deleted(self) -> None:
        """Refuse a change of what is deleted."""
        if self.deleted:
            raise UnknownStreamError(str(self.identity.name))

    def store(self, batch: Batch, **values: str) -> None:
        """Store new values of columns of the stream's row."""
        work = partial(storage.update_stream, stream_key=self.identity.key, values=values)
        batch.write(work)
        batch.touch(self)

    def before_commit(self, batch: Batch) -> None:
        """Run the pass that is due, and add all that changed to the transaction."""
        if self.deleted:
            self._host.changelogs.forget(self.identity.key)
            return
        now = self.now()
        self._run_due_pass(now)  # before anything is handed out: its marks are part of it
        self._write_changes(batch)

    def after_commit(self) -> None:
        """Publish what is durable now, wake the calls that wait, and plan the next pass."""
        if not self.durable:
            _log.info("stream created", extra={"stream": str(self.identity.name)})
        self.durable = True
        news = self._publish()
        if self.deleted:
            self._host.remove(self)
            return
        if news:
            self.changed.notify_all()
        if self.aggregator.holds_run:
            self._host.ticking.add(self)
        else:
            self._host.ticking.discard(self)
        self._plan()

    def _publish(self) -> bool:
        """Publish what is durable now, and return whether anybody waits for it."""
        before, topology, log = self.published, self.aggregator.topology, self.log
        is_scaled, first_cut = topology is not before.topology, before.first_cut
        # Nearly always the segments that the log begins with are as they were.
        if is_scaled and any(topology[n] is not before.topology[n] for n in first_cut or ()):
            first_cut = _first_cut(log, topology)
        has_grown = log.tails is not None and log.tails != before.tails
        self.published = Published(
            mark=self.aggregator.newest,
            tails=before.tails if log.tails is None or not has_grown else dict(log.tails),
            topology=topology,
            first_cut=first_cut,
            config=self.config,
            load=self.load,
        )
        return is_scaled or has_grown or self.published.mark is not before.mark

    def restore_load(self, load: Load) -> None:
        """Continue with the load that was stored."""
        self.load = load
        self.published = self.published._replace(load=load)

    def change_config(self, config: StreamConfig) -> None:
        """Change the settings."""
        self.config = config
        self.aggregator.change_settings(settings_of(config))
        self._timer.plan_anew()

    def begin_at(self, first: DownSet) -> None:
        """Begin where the stream was truncated, which is durable.

        The race: two that truncate it are answered in another order than they were stored in.
        """
        log = self.log
        if isinstance(log, EmbeddedLog) and includes(first, log.first):
            log.first = first
            self._publish_first_cut()

    def _publish_first_cut(self) -> None:
        first_cut = _first_cut(self.log, self.published.topology)
        self.published = self.published._replace(first_cut=first_cut)

    async def reload(self) -> None:
        """Read the stream back from disk."""
        await self._host.reload(self)

    def become(self, other: "StreamState") -> None:
        """Replace everything by what was read back from disk."""
        self.deleted = False
        self.aggregator.drop_reports()
        self.config, self.aggregator, self.log = other.config, other.aggregator, other.log
        self.load = other.load
        self.after_commit()
        self._publish_first_cut()
        self._timer.put_off(self._wake, _AGAIN_S)  # at once it would be refused again

    def let_go(self) -> None:
        """Release memory: wake the calls that wait for the stream, and end what refers to it."""
        self.changed.notify_all()
        self._timer.cancel()
        self.aggregator.drop_reports()

    def touch(self) -> None:
        """Run the pass that is due, in a batch, and store what changed.

        The race: the batch is refused, since the database is away. Nothing else may wake the
        stream, so it is tried again.
        """

        def decide(batch: Batch) -> None:
            if not self.deleted:
                batch.touch(self)

        def check(touched: "asyncio.Future[Any]") -> None:
            refused = not touched.cancelled() and touched.exception()
            will_wake = self._timer or self.deleted
            if isinstance(refused, UnavailableError) and not will_wake:
                self._timer.wake_in(self._wake, _AGAIN_S)

        self._host.sequencer.submit_quietly(decide).add_done_callback(check)

    def _run_due_pass(self, now: Now) -> None:
        began = monotonic()
        if began < self._earliest_pass:
            return
        if not self.aggregator.pass_due:
            deadline = self.aggregator.next_deadline()
            if deadline is None or deadline > now.listening_ms:
                return
        outcome = self.aggregator.run_pass(now)
        ended = monotonic()
        if outcome.marks:
            self._last_pass = ended
        self.take_note(outcome)
        self._host.on_pass(outcome, ended - began)

    def take_note(self, outcome: PassOutcome) -> None:
        """Count and log the writers that a pass expired, and remove those that it forgot."""
        self.expirations += len(outcome.expired)
        stream = str(self.identity.name)
        for writer in outcome.expired:
            _log.warning("writer expired", extra={"stream": stream, "writer": writer})
        for writer in outcome.forgotten:
            self.log.abort_transactions(writer, wall_ms=self.now().wall_ms)
            self.log.forget(writer)
            _log.info("writer forgotten", extra={"stream": stream, "writer": writer})
        if outcome.long_hold is not None:
            _log.warning("watermark is held", extra=_facts_of(stream, outcome.long_hold))
        for hold in outcome.holds:
            self._hold_ms += hold.held_ms
            if hold.until_ms - hold.began_ms >= LONG_MS:
                _log.info("hold ended", extra=_facts_of(stream, hold))

    @property
    def _earliest_pass(self) -> float:
        """When the interval of marks is over, on the monotonic clock."""
        return self._last_pass + self.config.mark_interval_ms / 1_000

    def _write_changes(self, batch: Batch) -> None:
        key = self.identity.key
        changes = self.aggregator.take_changes(stagger=key % _STAGGERED_BY)
        if changes:
            self._host.changelogs.add(batch, key, changes)
        self.log.write(batch, key, changes.entry.forgotten)

    def _plan(self) -> None:
        """Wake up for the next pass: something is due, or runs out, and its interval is over."""
        due, deadline = self.aggregator.pass_due, self.aggregator.next_deadline()
        deadline_ms = inf if deadline is None else deadline
        if self._timer.is_in_time_for(deadline_ms) and not due:
            return
        delay_s = self._earliest_pass - monotonic()
        if not due:
            delay_s = max(delay_s, (deadline_ms - self.now().listening_ms) / 1_000)
        self._timer.plan(self._wake, delay_s, deadline_ms)

    def _wake(self) -> None:
        if not self.deleted:
            self.touch()


def settings_of(config: StreamConfig) -> StreamSettings:
    """Pick the settings that steer the aggregation."""
    names = asdict(StreamSettings())
    return StreamSettings(**{name: getattr(config, name) for name in names})


def _facts_of(stream: str, hold: Hold) -> dict[str, object]:
    """Return what the log says of a span: who held, for how long, and how it ended."""
    facts: dict[str, object] = {
        "stream": stream,
        "writer": hold.writer,
        "others": hold.others,
        "held_for": describe_span(hold.until_ms - hold.since_ms),
    }
    if hold.began_ms < hold.since_ms:
        facts["held_in_all"] = describe_span(hold.until_ms - hold.began_ms)
    return facts if hold.end is None else facts | {"end": hold.end}


def _first_cut(log: EmbeddedLog | ExternalLog, topology: Topology) -> Position | None:
    return frontier(topology, log.first) if isinstance(log, EmbeddedLog) else None
