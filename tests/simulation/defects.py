"""Defects that can be planted in the product, to see whether the simulation finds them.

Each patches the product at one place, and is about a rule that no other one is about.
``python -m tests.simulation SEED --count 50 --defect NAME`` runs with one, until it is found.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, NamedTuple
from unittest import mock

import msgspec
from sqlalchemy import func, select

from controller import clocks, factory, process, tenure
from controller.background import silence
from controller.background.silence import SilentReaders
from controller.background.stamping import Stamping
from controller.cluster import Lease, lease
from controller.commit.sequencer import Sequencer
from controller.http.calls import groups as calls_of_groups
from controller.log import storage as log_storage
from controller.log.embedded import EmbeddedLog
from controller.log.transactions import Transactions
from controller.schema import streams as streams_table
from controller.store import changelog
from controller.store import streams as stored_streams
from controller.store import truncation as stored_truncation
from controller.streams import appends, history, truncation
from controller.streams.registry import Registry
from controller.streams.stream import StreamState
from controller.streams.transactions import TransactionCalls
from reader_client._reading import Reading
from tests.simulation.cluster import LEASE_MS
from tests.simulation.dialect import LeaseLost
from tests.simulation.kernel import current_node
from tests.simulation.ledger import DEAD_AFTER_MS
from tidegauge import groups, windows
from tidegauge.aggregation.acceptance import Acceptance
from tidegauge.aggregation.clocks import HoldClock
from tidegauge.aggregation.holds import Holds
from tidegauge.aggregation.marking import Marking
from tidegauge.aggregation.passes import Passes
from tidegauge.aggregation.running_cut import RunningCut
from tidegauge.aggregation.writers import Life, Now
from tidegauge.aggregator import Aggregator
from tidegauge.client.outage import ServiceUnreachableError
from tidegauge.errors import OutcomeUnknownError, UnavailableError
from tidegauge.groups import GroupState
from writer_client._lanes import Lanes
from writer_client._membership import Membership
from writer_client._outbox import Outbox


class Defect(NamedTuple):
    """One that can be planted, and the runs that find it soonest."""

    plant: Callable[[], AbstractContextManager[object]]
    law: str
    """The one that it breaks, which is how it is found."""
    controllers: int
    about: str | None


DEFECTS: dict[str, Defect] = {}
"""All that can be planted, by name."""


def _defect(
    law: str, *, controllers: int = 1, about: str | None = None
) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Add a defect under the name of the function that makes its patch."""

    def add(make: Callable[[], Any]) -> Callable[[], Any]:
        DEFECTS[make.__name__] = Defect(make, law, controllers, about)
        return make

    return add


_in = mock.patch.object


# Commits.


@_defect("stopped", about="writing")
def answer_before_the_commit() -> Any:
    """Callers are answered once their change is decided, before it is on disk."""
    decide = Sequencer._decide

    def decide_and_answer(self: Sequencer, *given: Any) -> Any:
        decided = decide(self, *given)
        for submission in decided:
            submission.finish()
        return decided

    return _in(Sequencer, "_decide", decide_and_answer)


@_defect("old", about="writing")
def mark_shown_before_the_commit() -> Any:
    """Marks are published before the transaction that stores them."""
    add_changes = StreamState.before_commit

    def add_and_publish(self: StreamState, batch: Any) -> None:
        add_changes(self, batch)
        if not self.deleted and self._publish():
            self.changed.notify_all()

    return _in(StreamState, "before_commit", add_and_publish)


@_defect("stopped", about="writing")
def no_read_back() -> Any:
    """Memory stays ahead of the disk after a transaction that failed."""

    async def forget(self: Sequencer) -> bool:
        self._stale.clear()
        return True

    return _in(Sequencer, "_reload", forget)


@_defect("not whole", about="transactions")
def torn_transaction() -> Any:
    """Of several parts that belong together one is stored at once, the others with what follows."""
    write = EmbeddedLog.write

    def write_first(self: EmbeddedLog, *given: Any) -> None:
        self.chunks, later = self.chunks[:1], self.chunks[1:]
        write(self, *given)
        self.chunks = later

    return _in(EmbeddedLog, "write", write_first)


@_defect("stored twice", about="writing")
def forgotten_sequences() -> Any:
    """Which appends of writers are stored is not stored."""
    write = log_storage.write_appends

    def write_chunks(connection: Any, key: int, chunks: Any, _sequences: Any) -> None:
        write(connection, key, chunks, {})

    return _in(log_storage, "write_appends", write_chunks)


@_defect("new start", about="writing")
def changelog_loses_an_entry() -> Any:
    """Where a log of what writers noted is compacted, the entry that restates them goes, too."""
    delete = changelog._delete

    def delete_more(connection: Any, needless: Any) -> None:
        delete(connection, [one._replace(before=one.before + 1) for one in needless])

    return _in(changelog, "_delete", delete_more)


@_defect("refused", about="deleting")
def key_of_a_deleted_stream() -> Any:
    """A new stream gets the key of a deleted one, whose rows are not removed yet."""

    def last_key(connection: Any) -> int:
        return connection.scalar(select(func.max(streams_table.c.key))) or 0

    return _in(stored_streams, "last_stream_key", last_key)


# Leases.


@_defect("fenced", controllers=3, about="holding")
def no_lease_check() -> Any:
    """Transactions of a controller go on though another one has taken over."""
    return _in(lease, "_check", lambda *_given, **_named: None)


@_defect("fenced", controllers=3, about="holding")
def row_not_locked() -> Any:
    """A transaction looks at its lease, and does not keep it from being taken meanwhile."""

    def look(connection: Any, holder: str) -> None:
        found = connection.exec_driver_sql("SELECT 1 FROM holder WHERE id = %s", (holder,))
        if found.first() is None:
            raise LeaseLost("no lease")

    return _in(lease, "_check", look)


@_defect("old", controllers=3, about="holding")
def memory_trusted_without_a_lease() -> Any:
    """A controller answers from memory though its lease may be over."""
    return _in(Lease, "is_certain", True)


@_defect("old", controllers=3, about="holding")
def read_not_checked() -> Any:
    """What is read from memory between two batches is answered whatever the lease says."""
    compose = factory.compose

    def compose_trustingly(*given: Any, **named: Any) -> Any:
        return replace(compose(*given, **named), is_certain=lambda: True)

    return _in(process, "compose", compose_trustingly)


@_defect("stands by", controllers=3, about="holding")
def lease_from_its_answer() -> Any:
    """A lease counts from the answer to its renewal, not from before it was sent."""

    def certain_from_now(self: Lease, until_s: float) -> None:
        vars(self)["until"] = clocks.boot_s() + self._lease_s if until_s else 0.0

    until = property(lambda self: vars(self)["until"], certain_from_now)
    return mock.patch.object(Lease, "_certain_until", until, create=True)


@_defect("stands by", controllers=3, about="holding")
def half_a_lease() -> Any:
    """Whoever stands by waits for half a lease."""
    return _in(lease, "_PATIENCE_OF_STANDBYS", 0.5)


@_defect("stands by", controllers=3, about="holding")
def lease_of_the_standby() -> Any:
    """Whoever stands by waits for a lease of its own, not for one of the holder's."""
    read = lease._read

    def read_as_the_shortest(connection: Any) -> Any:
        found = read(connection)
        return found and found._replace(lease_ms=LEASE_MS // 2)

    return _in(lease, "_read", read_as_the_shortest)


@_defect("stands by", controllers=3, about="failing_over")
def wait_that_outlives_its_connection() -> Any:
    """Whoever stands by goes on with its wait on another connection."""
    is_over, firsts = Lease._is_over, dict[Lease, tuple[Any, float]]()

    def has_waited(self: Lease, found: Any, *, waited_s: float) -> bool:
        if waited_s >= 0 and firsts.get(self, (None,))[0] != found:
            firsts[self] = found, clocks.boot_s()
        return is_over(self, found, waited_s=clocks.boot_s() - firsts[self][1])

    return _in(Lease, "_is_over", has_waited)


@_defect("not stored", controllers=3, about="failing_over")
def database_that_went_back_unseen() -> Any:
    """Nothing checks that the database is the one that memory is of."""
    patches = ExitStack()
    for one in (_renewals_unchecked(), connections_unchecked(), _settled_unchecked()):
        patches.enter_context(one)
    return patches


@_defect("not stored", controllers=3, about="failing_over")
def connections_unchecked() -> Any:
    """A new connection for transactions may lead to another server."""
    return _in(Lease, "_check_server", lambda *_given: None)


def _renewals_unchecked() -> Any:
    """A renewal counts whatever its number, and on whatever server."""

    async def keep(self: Lease) -> None:
        number: int | None = 0
        while number is not None and not self._doubt:
            await asyncio.sleep(lease._PERIOD_S)
            sent = clocks.boot_s()
            with suppress(OutcomeUnknownError, UnavailableError):
                number = await self._session.run(partial(lease._renew, holder=self._id))
                self._certain_until = sent + self._lease_s
        self._certain_until, self.holder = 0.0, ""

    return _in(Lease, "keep", keep)


def _settled_unchecked() -> Any:
    """Memory is read back though the row has an older number."""

    def settle(_self: Lease, connection: Any, holder: str) -> None:
        connection.exec_driver_sql(lease._AWAIT_COMMITS, (holder,))

    return _in(Lease, "_settle", settle)


@_defect("not stored", controllers=3, about="failing_over")
def doubt_that_does_not_count() -> Any:
    """A controller that doubts its memory answers on, until its lease is over."""
    is_certain = property(lambda self: clocks.boot_s() < self._certain_until)
    return _in(Lease, "is_certain", is_certain)


@_defect("stands by", controllers=3, about="holding")
def lease_of_a_suspended_machine() -> Any:
    """A lease goes by a clock that stands while the machine is suspended."""
    return _in(lease, "boot_s", time.monotonic)


@_defect("stands by", controllers=3, about="holding")
def taken_without_its_number() -> Any:
    """A lease is taken although it has been renewed meanwhile."""
    return _in(lease, "_REPLACE", lease._REPLACE.replace("AND number = %s", "AND %s >= 0"))


@_defect("take-over", controllers=3, about="failing_over")
def stuck_sessions_live_on() -> Any:
    """Whoever takes over waits for transactions of the former holder."""
    return _in(lease, "_end_stuck", lambda *_given, **_named: None)


@_defect("does not end", controllers=3, about="holding")
def lease_believed_to_be_renewed() -> Any:
    """A controller that was taken over believes that it has its lease."""
    numbers = count(1)

    def renew_somehow(*_given: Any, **_named: Any) -> int:
        return next(numbers)

    return _in(lease, "_renew", renew_somehow)


@_defect("old", controllers=3, about="holding")
def memory_outlives_its_tenure() -> Any:
    """A controller that takes over again goes on with the logs that it had."""
    restore = Registry.restore_all

    async def restore_what_is_new(self: Registry) -> None:
        await restore(self)
        kept = vars(current_node()).setdefault("kept", {})
        for state in self:
            state.log = kept.setdefault(state.identity.name, state.log)

    return _in(Registry, "restore_all", restore_what_is_new)


@_defect("listens", controllers=3, about="holding")
def listening_begins_anew() -> Any:
    """Listening time begins at 0 after a take-over."""
    return _in(tenure, "read_listening", lambda _connection: 0)


@_defect("listens", controllers=3, about="holding")
def listening_without_a_lease() -> Any:
    """Listening time goes on while the controller is not certain that it holds the database."""
    make = Stamping.__init__

    def make_certain(self: Stamping, *given: Any) -> None:
        make(self, *given)
        self._is_certain = lambda: True

    return _in(Stamping, "__init__", make_certain)


@_defect("listening time", about="silence")
def no_last_stamp() -> Any:
    """Whoever leaves does not store its listening time."""
    return _in(Stamping, "stamp_last", lambda _self: None)


# Marks.


@_defect("behind a cut", about="writing")
def leaky_cut() -> Any:
    """What a writer wrote before its first report behind a mark is left out of the next cut."""

    def keep(self: RunningCut, reports: Any) -> None:
        self._recent += reports
        for report in reports:
            kept = report.writer.kept
            if kept:
                kept[-1].following = report
            kept.append(report)

    return _in(RunningCut, "keep", keep)


@_defect("upper", about="writing")
def upper_end_at_the_watermark() -> Any:
    """A mark does not say how far its writers had noted time, but where it is."""
    mark = Marking._mark

    def mark_short(self: Marking, *given: Any) -> Any:
        made = mark(self, *given)
        return msgspec.structs.replace(made, upper=made.lower)

    return _in(Marking, "_mark", mark_short)


@_defect("goes back", about="writing")
def watermark_forgotten() -> Any:
    """After a restart a mark may be lower than the newest one."""
    restore = Marking.restore

    def restore_mark(self: Marking, *given: Any) -> None:
        restore(self, *given)
        self.watermark = None

    return _in(Marking, "restore", restore_mark)


@_defect("late watermark", about="silence")
def silence_never_ends() -> Any:
    """A writer that says nothing holds the others for ever."""
    return _limit_forgotten("timeout_ms")


@_defect("late watermark", about="silence")
def standing_still_never_ends() -> Any:
    """A writer that says the same again and again holds the others for ever."""
    return _limit_forgotten("limit_ms")


def _limit_forgotten(name: str) -> Any:
    view = Passes.view

    def view_without(self: Passes, *given: Any) -> Any:
        return msgspec.structs.replace(view(self, *given), **{name: None})

    return _in(Passes, "view", view_without)


@_defect("dropped early", about="silence")
def clock_not_started_anew() -> Any:
    """A writer that is heard of is as silent as before."""

    def stamp_once(self: HoldClock, writers: Any) -> None:
        for writer in writers:
            self.stamps.setdefault(writer, self.time.ms)

    return _in(HoldClock, "stamp", stamp_once)


@_defect("believed", about="lying")
def future_believed() -> Any:
    """A time that nobody can know is taken."""
    accept = Aggregator._acceptance_now

    def accept_all(self: Aggregator) -> Acceptance:
        return replace(accept(self), max_future_skew_ms=None)

    return _in(Aggregator, "_acceptance_now", accept_all)


@_defect("stopped", about="returning")
def late_registration_fences() -> Any:
    """A registration that arrives a second time begins an incarnation of its own."""
    return _in(Life, "made_by", lambda *_given: None)


@_defect("behind a cut", about="batches")
def note_beside_its_events() -> Any:
    """A time that is noted with events does not cover them."""
    own = appends._own

    def own_before(state: Any, writer: str, _position: Any) -> Any:
        return own(state, writer, {})

    return _in(appends, "_own", own_before)


@_defect("behind a cut", about="writing")
def note_ahead_of_its_events() -> Any:
    """A note is sent once the events before it are on their way, with the position until then."""

    def send_all(self: Outbox, limit: int) -> Any:
        with self._lock:
            sent = self.noter.notes.send(limit, below=self._written + 1)
            return [(time, self._lanes.without_passed(position)) for time, position in sent]

    return _in(Outbox, "send_notes", send_all)


@_defect("behind a cut", about="impatience")
def note_accepted_without_an_answer() -> Any:
    """A note counts as accepted once its writer has waited for long enough."""
    keep_reporting = Membership._keep_reporting

    async def report_somehow(self: Membership, take: Any, send: Any, *, waits: bool) -> None:
        async def try_to_send(notes: Any) -> None:
            with suppress(ServiceUnreachableError):
                await send(notes)

        await keep_reporting(self, take, try_to_send, waits=waits)

    return _in(Membership, "_keep_reporting", report_somehow)


@_defect("dropped early", about="silence")
def clocks_run_during_an_outage() -> Any:
    """Listening time goes on while nothing can be stored."""
    stamp = clocks.ListeningClock.stamp

    def stamp_always(self: clocks.ListeningClock, *, halt: bool = False) -> int:
        return stamp(self)

    return _in(clocks.ListeningClock, "stamp", stamp_always)


# Segments, transactions, batches.


@_defect("out of order", about="scaling")
def merged_segment_too_early() -> Any:
    """A merged segment gets an event before an older one of the same key."""

    def take(self: Lanes, segment: int, **most: Any) -> Any:
        return self[segment].take(**most)

    return _in(Lanes, "take", take)


@_defect("stored twice", about="batches")
def batch_stored_twice() -> Any:
    """The newest batch of a job is stored again when it comes again."""
    last_batch = TransactionCalls._last_batch

    def last_but_one(self: TransactionCalls, writer: str) -> int:
        return last_batch(self, writer) - 1

    return _in(TransactionCalls, "_last_batch", last_but_one)


@_defect("not whole", about="transactions")
def commit_not_repeated() -> Any:
    """A commit that is repeated, since its answer was lost, is refused."""

    def commit(self: TransactionCalls, routed: Any, batch: Any, **how: Any) -> Any:
        staged = how["transaction"]
        if self._publish(batch, [staged], routed, how["source"]) is None:
            return None
        return self.state.embedded_log().transactions.find(staged.id)

    return _in(TransactionCalls, "_commit", commit)


@_defect("left open", about="transactions")
def transactions_outlive_their_process() -> Any:
    """A writer that registers leaves the transactions of its former process open."""
    return _in(Transactions, "abort_of", lambda *_given, **_named: None)


@_defect("sealed early", about="ending")
def job_seals_for_all() -> Any:
    """A job that ends seals the stream though other writers have not ended."""
    return _in(Aggregator, "all_ended", True)


@_defect("not whole", about="transactions")
def commit_drops_what_came_meanwhile() -> Any:
    """A commit publishes what it has read, though more was staged before it is decided."""
    publish = TransactionCalls._publish

    def publish_what_was_read(
        self: TransactionCalls, batch: Any, those: Any, routed: Any, source: Any
    ) -> Any:
        chunks = routed.chunks and [self._open(one).chunks for one in those]
        return publish(self, batch, those, routed._replace(chunks=chunks), source)

    return _in(TransactionCalls, "_publish", publish_what_was_read)


@_defect("timed out early", about="transactions")
def transaction_times_out_early() -> Any:
    """The lease of a transaction ends after a tenth of its time."""

    def run_out(self: Transactions, now_ms: int) -> Any:
        return [
            one
            for one in self.open.values()
            if one.deadline_ms - one.timeout_ms * 9 // 10 <= now_ms
        ]

    return _in(Transactions, "run_out", run_out)


@_defect("stored twice", about="lines")
def lines_appended_again() -> Any:
    """NDJSON that is sent again with its key is appended again."""

    async def append(sequencer: Any, _database: Any, *what: Any, **_keyed: Any) -> Any:
        state, routed, source = what
        append = partial(appends.append_routed, state=state, routed=routed, source=source)
        return await sequencer.submit(append)

    return _in(appends, "append_once_by_key", append)


@_defect("stored twice", about="lines")
def keys_forgotten_at_a_restart() -> Any:
    """What an idempotency key stands for is in memory alone."""
    return _in(appends, "insert_rows", lambda *_given, **_named: None)


# Readers.


@_defect("missed", about="reading")
def start_behind_its_time() -> Any:
    """Where to start for a time is behind an event at just that time."""
    start_of = history.start_of

    async def start_later(database: Any, state: Any, time_ms: int) -> Any:
        return await start_of(database, state, time_ms + 1)

    return _in(history, "start_of", start_later)


@_defect("stops", about="reading")
def stop_behind_its_mark() -> Any:
    """Where to stop for a time is the mark behind the one that is complete for it."""
    first_from = history.first_mark_from

    async def second_from(database: Any, state: Any, time_ms: int) -> Any:
        first = await first_from(database, state, time_ms)
        return first and await first_from(database, state, first.lower + 1)

    return _in(history, "first_mark_from", second_from)


@_defect("not fenced", about="reading")
def epoch_of_the_former() -> Any:
    """Whoever takes a name over has the epoch of the process before it."""
    join_group = groups.join_group

    def join_as_before(state: GroupState, reader: str) -> GroupState:
        return state if reader in state.readers else join_group(state, reader)

    return _in(calls_of_groups, "join_group", join_as_before)


@_defect("not fenced", about="reading")
def epoch_of_another() -> Any:
    """Whoever joins has the epoch of whoever joined last."""
    join_group = groups.join_group

    def join_with_the_last(state: GroupState, reader: str) -> GroupState:
        last = max(1, state.epochs)
        joined = join_group(state, reader)
        member = replace(joined.readers[reader], epoch=last)
        return replace(joined, readers={**joined.readers, reader: member}, epochs=last)

    return _in(calls_of_groups, "join_group", join_with_the_last)


@_defect("not fenced", about="reading")
def former_process_confirms() -> Any:
    """A process whose name another one has taken over confirms on."""

    def of_the_newest(change: Any) -> Any:
        def change_all(state: GroupState, reader: str, epoch: int, **more: Any) -> Any:
            member = state.readers.get(reader)
            return change(state, reader, member.epoch if member else epoch, **more)

        return change_all

    patches = ExitStack()
    for name in ("advance", "has_its_share"):
        newest = of_the_newest(getattr(groups, name))
        patches.enter_context(_in(calls_of_groups, name, newest))
    return patches


@_defect("forgotten", about="reading")
def checkpoints_of_those_that_left() -> Any:
    """With a reader that is silent the checkpoints of its group go, too."""
    go_offline = groups.go_offline

    def go_and_forget(state: GroupState, *given: Any, **named: Any) -> GroupState:
        return replace(go_offline(state, *given, **named), checkpoints={})

    return _in(silence, "go_offline", go_and_forget)


@_defect("dropped early", about="reading")
def reader_dead_too_early() -> Any:
    """A reader is taken offline after a third of its time."""
    take_offline = SilentReaders.take_offline

    class Ahead(NamedTuple):
        clocks: Any

        def now(self) -> Now:
            now = self.clocks.now()
            return Now(now.wall_ms, now.listening_ms + DEAD_AFTER_MS * 2 // 3)

    async def take_offline_early(self: SilentReaders) -> None:
        await take_offline(replace(self, _clocks=Ahead(self._clocks)))  # type: ignore[arg-type]

    return _in(SilentReaders, "take_offline", take_offline_early)


@_defect("window", about="reading")
def upper_end_too_high() -> Any:
    """A group's window ends at the mark behind the one that it is before."""
    find = windows.time_window

    def find_later(topology: Any, marks: Any, position: Any) -> Any:
        found = find(topology, marks, position)
        later = [one.upper for one in marks if found.upper and one.upper > found.upper]
        return replace(found, upper=later[0]) if later else found

    return _in(history, "time_window", find_later)


@_defect("never read", about="reading")
def reader_confirms_too_early() -> Any:
    """What is being handed out is confirmed before its reader has seen it."""
    fetch = Reading._fetch

    async def fetch_and_confirm(self: Reading, *, limit: int) -> Any:
        found = await fetch(self, limit=limit)
        await self._member.report(dict(self.share.returned))
        return found

    return _in(Reading, "_fetch", fetch_and_confirm)


@_defect("window", about="scaling")
def successor_opens_too_early() -> Any:
    """A merged segment is read once one of those that it continues is read to its end."""

    def any_of(those: Any) -> bool:
        listed = list(those)
        return not listed or any(listed)

    return mock.patch.object(groups, "all", any_of, create=True)


@_defect("window", about="reading")
def window_too_high() -> Any:
    """A group's window begins at the mark behind the one that it has passed."""
    count = windows.count_passed

    def count_one_more(topology: Any, marks: Any, position: Any) -> int:
        return min(len(marks), count(topology, marks, position) + 1)

    return _in(windows, "count_passed", count_one_more)


@_defect("truncated", about="truncating")
def truncation_ignores_groups() -> Any:
    """What a group has not read may be truncated."""
    return _in(truncation, "_needs", lambda *_given: iter(()))


@_defect("truncated", about="truncating")
def truncation_ignores_checkpoints() -> Any:
    """What lies behind a checkpoint of a group may be truncated."""

    def position_alone(self: GroupState, stream: str) -> Any:
        return {None: self.position(stream)}

    return _in(GroupState, "resumable", position_alone)


@_defect("truncated", about="retaining")
def retention_drops_young_events() -> Any:
    """Retention drops what is two seconds younger than it may."""
    appended = log_storage.appended_before

    def appended_later(connection: Any, key: int, time_ms: int) -> Any:
        return appended(connection, key, time_ms + 2_000)

    return _in(log_storage, "appended_before", appended_later)


@_defect("truncated", about="sparing")
def retention_looks_once() -> Any:
    """What groups need is not read again in the transaction that stores where a stream begins."""
    store = truncation._store

    def store_as_seen(connection: Any, state: Any, gone: Any, readers: Any) -> Any:
        readers = "force" if readers == "spare" else readers
        return store(connection, state, gone, readers)

    return _in(truncation, "_store", store_as_seen)


@_defect("old", about="forcing")
def truncation_forgets_earlier_ones() -> Any:
    """Where a stream begins is where it was truncated last, also if that lies before."""
    read = stored_truncation.read_truncation

    def read_nothing(connection: Any, key: int) -> Any:
        return read(connection, key)._replace(cut={})

    return _in(truncation, "read_truncation", read_nothing)


@_defect("held by another", controllers=3)
def newcomer_is_blamed() -> Any:
    """A writer that comes while the watermark is held is taken for one that has held it all along."""
    look = Holds.look

    def look_at_equals(self: Holds, *args: Any, **found: Any) -> Any:
        self._newcomers.clear()
        return look(self, *args, **found)

    return _in(Holds, "look", look_at_equals)


@_defect("held by another", controllers=3)
def holder_after_a_take_over_held_before() -> Any:
    """Who holds the watermark when a controller takes over is taken for one that has held it all along."""
    restore = Holds.restore

    def restore_all(self: Holds, paced: Any) -> None:
        restore(self, paced)
        self._newcomers.clear()

    return _in(Holds, "restore", restore_all)
