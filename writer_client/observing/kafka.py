"""An observer of a topic of Kafka: a member of a consumer group that notes time for others.

Needs the extra ``kafka``.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import Any

from tidegauge.client.kafka import BrokerError, Topic, made, settings_of
from tidegauge.client.transport import Transport, is_transient
from tidegauge.errors import ForbiddenError, TidegaugeError, UnknownStreamError
from tidegauge.event_time import END_OF_TIME
from tidegauge.extras import needs_extra
from tidegauge.topology import Position
from writer_client._calls import ObserverCalls
from writer_client._clocked import wall_ms
from writer_client.observing.observation import Observation, resume_at, stride
from writer_client.observing.partition import Look
from writer_client.observing.promises import PromiseObservation
from writer_client.observing.records import ObserverError, Records, place_of
from writer_client.observing.reports import Reports
from writer_client.observing.watching import Progress, Watching

with needs_extra("observe", extra="kafka"):
    from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

_NOTE_S = 0.5
"""At the end, one report of a writer in so long: less than readers notice, and 10 000 writers can."""
_LOOK_S = 1.0
_SHOW_S = 5.0
_POLL_S = 0.1
_MOST = 5_000
"""Records a turn: some 50 ms of work, so that notes are in time."""
_MS = timedelta(milliseconds=1)
_LIVE = {"joining", "active", "behind"}
_FINAL = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
}


class KafkaObserver:
    """Reads a topic, and notes time for its writers until it is stopped.

    Made inside a running loop.

    Parameters
    ----------
    transport
        To the service.
    watching
        What it reads, and how.
    settings
        Of librdkafka; ``bootstrap.servers`` at least.
    show
        Takes `Progress` every few seconds, and at the end.
    warn
        Takes a line about what is wrong and does not end it.
    """

    def __init__(
        self,
        transport: Transport,
        watching: Watching,
        *,
        settings: Mapping[str, Any],
        show: Callable[[Progress], object],
        warn: Callable[[str], object],
    ) -> None:
        self._watching = watching
        self._settings = settings
        self._show, self._warn = show, warn
        self._calls = ObserverCalls(transport, watching.stream)
        self._promises: PromiseObservation | None = None
        if watching.promise_of is not None:
            self._promises = PromiseObservation(checks=watching.time_of is not None)
            self._promises.register(int(one) for one in watching.excepted if one.isdecimal())
        self._observation = self._promises or Observation(
            watching.guess, idle_ms=_ms(watching.idle), hold_ms=_ms(watching.hold_limit)
        )
        own = f"tidegauge-observe-{watching.stream}".replace("/", "-")
        self._group = settings.get("group.id", own)
        self._topic = Topic(settings, watching.topic, retry_for=timedelta(0))
        self._records = Records(watching, warn)
        self._reports = Reports(self._calls, self._observation, warn)
        self._loop = asyncio.get_running_loop()
        # Its own: a consumer is closed only after its last call has come back.
        self._thread = ThreadPoolExecutor(1, "tidegauge-observer")
        self._stopping = asyncio.Event()
        self._first_ends: Position = {}
        self._ends: Position = {}
        self._open: Position = {}
        self._undecided: Position = {}
        self._look: Look | None = None
        self._failure: Exception | None = None
        self._skew_ms: int | None = None
        self._is_assigned = False
        self._paused: set[int] = set()

    def stop(self) -> None:
        """Let `run` note what is due once more, and end. The writers stay members of the stream."""
        self._stopping.set()

    async def run(self) -> None:
        """Observe until `stop`, or until the end.

        Raises
        ------
        ProblemError
            What the service refuses for good: too many writers, for example.
        BrokerError
            If Kafka does not answer at the start, or refuses.
        ObserverError
            If the stream or its positions do not fit the topic.
        """
        await self._begin()
        self._calls.transport.gives_up = False
        consumer = self._consumer()
        looking = asyncio.create_task(self._keep_looking())
        try:
            await self._observe(consumer)
        finally:
            looking.cancel()
            await self._loop.run_in_executor(self._thread, consumer.close)
            self._thread.shutdown()

    async def _begin(self) -> None:
        try:
            info = await self._calls.describe()
        except UnknownStreamError as error:
            partitions = len(await asyncio.to_thread(self._topic.ends))
            msg = (
                f"there is no stream {self._watching.stream}; create it for the topic: tidegauge "
                f"create {self._watching.stream} --log external --segments {partitions}"
            )
            raise ObserverError(msg) from error
        if info.config.log != "external":
            msg = (
                f"stream {info.stream} keeps its events itself; observe a topic for a stream "
                "that was created with --log external"
            )
            raise ObserverError(msg)
        self._skew_ms = info.config.max_future_skew_ms
        self._observation.resolution_ms = info.config.mark_resolution_ms
        started_ms = wall_ms()
        self._first_ends = self._ends = await asyncio.to_thread(self._topic.high_watermarks)
        self._look = Look(started_ms, self._first_ends)
        await self._make_room(len(self._first_ends))

    async def _observe(self, consumer: Consumer) -> None:
        noted_s = shown_s = time.monotonic()
        while not self._stopping.is_set() and not self._is_done():
            found = await self._loop.run_in_executor(
                self._thread, consumer.consume, _MOST, _POLL_S
            )
            if self._failure is not None:
                raise self._failure
            self._take_in(found)
            is_due = time.monotonic() - noted_s >= _NOTE_S
            if is_due or not found:
                await self._read_lowest_first(consumer)
            if is_due or self._observation.has_steps:
                await self._report()
                noted_s = time.monotonic()
            if time.monotonic() - shown_s >= _SHOW_S:
                shown_s = time.monotonic()
                self._show(self._progress())
        if self._promises is not None:
            # Only a look from now on lets what was read last be noted; without it, the next start does.
            with suppress(TidegaugeError):
                await self._look_at_ends()
        await self._report(at_end=self._is_done())
        self._show(self._progress())

    async def _report(self, *, at_end: bool = False) -> None:
        if self._look is not None:
            self._observation.partitions.look(self._look)
            self._look = None
        # Who has promised nothing may still write anything: a promise is waited for at the end, too.
        await self._reports.report(at_end=at_end and self._promises is None)

    def _is_done(self) -> bool:
        is_read = self._is_assigned and not self._observation.partitions.behind(
            self._first_ends
        )
        return self._watching.until_end and is_read

    def _progress(self) -> Progress:
        read = self._observation.partitions.position
        return Progress(
            self._observation.sources.count,
            self._observation.holding,
            self._observation.sources.left_out,
            self._observation.sources.counts,
            self._observation.partitions.behind(self._ends),
            {n: at for n, at in self._undecided.items() if read.get(n, at + 1) <= at},
            self._calls.watermark,
            self._records.unreadable,
        )

    def _consumer(self) -> Consumer:
        """Join the group; what the observer relies on is not the caller's to set."""
        defaults = {
            "group.id": self._group,
            # A new partition is read some seconds after it is there, not 5 minutes.
            "topic.metadata.refresh.interval.ms": 10_000,
        }
        ours = {
            "enable_auto_commit": False,
            "enable_partition_eof": True,
            "isolation_level": "read_committed",
            "auto_offset_reset": "earliest",
            # Who keeps a partition goes on with its strategies.
            "partition_assignment_strategy": "cooperative-sticky",
        }
        settings = settings_of({**defaults, **self._settings}, **ours)
        consumer = made(Consumer, settings)
        consumer.subscribe(
            [self._watching.topic],
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_revoke,
        )
        return consumer

    # These two are called by `consume`, in its thread, while the loop waits for it.

    def _on_assign(self, consumer: Consumer, assigned: list[TopicPartition]) -> None:
        numbers = [one.partition for one in assigned]
        starting = asyncio.run_coroutine_threadsafe(self._start_at(numbers), self._loop)
        try:
            starts = starting.result()
        except Exception as error:  # noqa: BLE001 (raised by the loop, not through librdkafka)
            self._failure = error
            return
        topic = self._watching.topic
        placed = [TopicPartition(topic, one, starts[one]) for one in numbers]
        consumer.incremental_assign(placed)
        self._is_assigned = True

    def _on_revoke(self, consumer: Consumer, revoked: list[TopicPartition]) -> None:
        if paused := [one for one in revoked if one.partition in self._paused]:
            consumer.resume(paused)  # it may come back
        for one in revoked:
            self._observation.revoke(one.partition)
            self._paused.discard(one.partition)

    async def _make_room(self, partitions: int) -> None:
        """Let the stream have as many partitions as the topic, whose numbers go up from 0."""
        info = await self._calls.describe()
        limit = info.config.max_segments or info.config.segments
        if partitions <= limit:
            return
        try:
            await self._calls.configure(max_segments=partitions)
        except ForbiddenError as error:
            msg = (
                f"topic {self._watching.topic} has {partitions} partitions, stream {info.stream} "
                f"may have {limit}, and this token cannot change it: let an operator run tidegauge "
                f"configure {info.stream} --max-segments {partitions}"
            )
            raise ObserverError(msg) from error
        self._warn(f"max_segments of {info.stream} is {partitions} now; it was {limit}")

    async def _start_at(self, partitions: Sequence[int]) -> Position:
        """Take partitions over, however long the service or the broker are away."""
        while True:
            try:
                return await self._take_over(partitions)
            except BrokerError as error:
                if self._stopping.is_set():
                    raise
                self._warn(str(error))
                await asyncio.sleep(_LOOK_S)
            except TidegaugeError as error:
                if not is_transient(error) or self._stopping.is_set():
                    raise

    async def _take_over(self, partitions: Sequence[int]) -> Position:
        """Register the writers of partitions that are known, and return from where these are read.

        The race: the former observer still reads and reports. Once its writers are registered here
        what it reports is refused, and what they reported before is in the answer.
        """
        if not self._first_ends.keys() >= set(partitions):
            await self._make_room(max(partitions) + 1)
        begins = await asyncio.to_thread(self._topic.starts)
        known = await self._known_writers(partitions)
        live = [(name, number) for name, number, place, is_live in known if is_live]
        registered = await self._calls.register(name for name, _ in live)
        places = [place for _, _, place, _ in known]
        places += [one.position for one in registered.values()]
        starts = {
            number: self._start_of(number, begins, resume_at(places, number))
            for number in partitions
        }
        self._refuse_beyond(starts, await asyncio.to_thread(self._topic.high_watermarks))
        for number, start in starts.items():
            self._observation.partitions.assign(number, start)
        for name, number in live:
            self._observation.sources.expect(name, number)
        self._reports.admit(registered)
        if self._promises is not None:
            self._promises.register(partitions)
        return starts

    def _start_of(self, partition: int, begins: Position, resume: int | None) -> int:
        """Return where a partition is read from; one that is new is read from its beginning."""
        begin = begins[partition]
        if resume is not None:
            return max(resume, begin)
        is_whole = self._watching.since == "beginning"
        return begin if is_whole else self._first_ends.get(partition, begin)

    def _refuse_beyond(self, position: Position, ends: Position) -> None:
        """Refuse positions that the topic does not have."""
        for number, offset in position.items():
            if offset > ends.get(number, offset):
                msg = (
                    f"partition {number} of {self._watching.topic} ends at {ends[number]}, but "
                    f"{self._watching.stream} was noted up to {offset}: the topic was created again, "
                    "or is another one; observe it for a new stream"
                )
                raise ObserverError(msg)

    async def _known_writers(
        self, partitions: Sequence[int]
    ) -> list[tuple[str, int, Position, bool]]:
        """Find the writers of partitions: name, partition, position, and whether to speak for it now.

        Whose positions lie elsewhere is no writer of an observer, whatever its name.
        """
        if self._watching.value_of is None:
            names = {str(number): number for number in partitions}
            return [
                (name, number, {}, True)
                for name, number in names.items()
                if name not in self._watching.excepted
            ]
        wanted = {str(number): number for number in partitions}
        found: list[tuple[str, int, Position, bool]] = []
        async for one in self._calls.writers():
            value, dot, suffix = one.writer.rpartition(".")
            number = wanted.get(suffix)
            position = dict(one.position or {})
            if not dot or number is None or not position.keys() <= {number}:
                continue
            is_live = one.state in _LIVE and not self._watching.is_excepted(value, one.writer)
            found.append((one.writer, number, position, is_live))
        return found

    def _take_in(self, messages: Sequence[Message]) -> None:
        now_ms = wall_ms()
        latest_ms = END_OF_TIME - 1 if self._skew_ms is None else now_ms + self._skew_ms
        is_behind = self._observation.partitions.behind(self._ends) > 0
        every = stride(len(messages), self._observation.sources.count) if is_behind else None
        for number, message in enumerate(messages, 1):
            error = message.error()
            if error is None:
                self._observation.read(
                    self._records.row(message), latest_ms=latest_ms, wall_ms=now_ms
                )
                if every is not None and number % every == 0:
                    self._observation.step()
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 (its name)
                self._observation.partitions.read_to(*place_of(message))
            elif error.fatal() or error.code() in _FINAL:
                raise BrokerError(self._topic.bootstrap, self._reason(error))

    def _reason(self, error: KafkaError) -> str:
        if error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
            return error.str()
        return (
            f"{error.str()} to this user; give it Read on group {self._group}, or name another: "
            "--kafka group.id=NAME"
        )

    async def _read_lowest_first(self, consumer: Consumer) -> None:
        """Pause partitions that are ahead of one with more to read; not each turn: they are fetched again."""
        if self._promises is None:
            return
        ahead = self._promises.ahead({**self._ends, **self._undecided})
        changes = (
            (consumer.pause, ahead - self._paused),
            (consumer.resume, self._paused - ahead),
        )
        for change, numbers in changes:
            if numbers:
                places = [TopicPartition(self._watching.topic, number) for number in numbers]
                await self._loop.run_in_executor(self._thread, change, places)
        self._paused = ahead

    async def _look_at_ends(self) -> None:
        """Ask where the partitions end.

        That is the high watermark: what lies behind an open transaction is stored, and cannot be read yet.
        """
        started_ms, read = wall_ms(), self._observation.partitions.position
        ends = await asyncio.to_thread(self._topic.high_watermarks)
        self._refuse_beyond(read, ends)
        # Asked later, it lies below the end only where a transaction is open.
        stable = await asyncio.to_thread(self._topic.ends, ends)
        self._ends, self._look = ends, Look(started_ms, ends)
        open_now = {n: at for n, at in stable.items() if at < ends[n]}
        # Short ones follow each other: what is named was open at the look before, too.
        self._undecided = dict(open_now.items() & self._open.items())
        self._open = open_now
        if self._promises is not None:
            await self._clear(self._promises, read)

    async def _clear(self, promises: PromiseObservation, read: Position) -> None:
        """Let be noted what was read before a look, unless a partition has no writer.

        Those of other observers have one once these have registered it: so none is left out of a mark.
        """
        if missing := promises.unregistered(self._ends):
            live = {one.writer async for one in self._calls.writers() if one.state in _LIVE}
            promises.register(number for number in missing if str(number) in live)
            promises.unregistered(self._ends)
        promises.clear(read)

    async def _keep_looking(self) -> None:
        """Look at the ends again and again."""
        has_warned = False
        while True:
            try:
                await self._look_at_ends()
            except BrokerError as error:
                if not has_warned:
                    self._warn(f"{error}; nothing is noted while it is away")
                has_warned = True
            except Exception as error:  # noqa: BLE001 (raised by the loop, which else waits for looks)
                if not is_transient(error):
                    self._failure = error
                    return
            else:
                if has_warned:
                    self._warn(f"Kafka at {self._topic.bootstrap} answers again")
                has_warned = False
            await asyncio.sleep(_LOOK_S)


def _ms(span: timedelta | None) -> int | None:
    return None if span is None else span // _MS
