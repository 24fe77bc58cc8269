"""Writers, readers, watchers and operators: what each of them does, over and over.

A writer is honest: it writes no event below what it noted or was told. Times are those of its wall
clock, more or less, so that the watermark can be compared with the time that it is.
"""

import asyncio
import json
from bisect import insort
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from math import inf
from operator import gt
from typing import Any

import httpx
import pyarrow as pa

from reader_client import AsyncReader, AsyncReaderGroup, AsyncStreamClient
from tests.simulation import clocks
from tests.simulation.cluster import LEASE_MS
from tests.simulation.disk import Disk
from tests.simulation.ledger import (
    DEAD_AFTER_MS,
    Checkpoint,
    GroupBook,
    StreamBook,
    Window,
    Written,
)
from tests.simulation.rivals import stage_beside, take_over
from tests.simulation.world import Expected, Program, Work, World
from tidegauge.client.outage import ServiceUnreachableError
from tidegauge.client.transport import Transport
from tidegauge.errors import (
    EventsNeededError,
    OutcomeUnknownError,
    SegmentLimitError,
    StreamReplacedError,
    TimeInFutureError,
    TopologyChangedError,
    TransactionFinishedError,
    UnavailableError,
    UnknownStreamError,
    WriterFencedError,
)
from tidegauge.event_time import END_OF_TIME
from tidegauge.lattice import down_set
from tidegauge.marks import Mark
from tidegauge.wire.columns import EVENT_SCHEMA
from tidegauge.wire.events import ARROW, NDJSON, SEQUENCE_HEADER, EventsAppended
from tidegauge.wire.groups import TimeWindowInfo
from tidegauge.wire.streams import StreamInfo
from tidegauge.wire.transactions import (
    BatchAppended,
    BatchOfTransactions,
    BeginTransaction,
    EventsStaged,
    TransactionBegun,
)
from writer_client import AsyncTimeReporter, AsyncWriter, EventsNotStoredError
from writer_client._events import encode_events

PATIENCE = timedelta(seconds=300)
"""Of every client: it outlives all faults."""
_OLDEST_MS = 80
"""How far an event's time may lie in the past."""
_KEYS = 4
_ANY = 10**9
"""Keys of which none comes twice: what is not repeated may overtake what is late."""
_REST_S = 1.0
"""Between two notes in the calm."""
_OFTEN_IN_CALM = 0.25
"""How often writers write something, too."""
_LEASE = timedelta(seconds=5)
"""Of transactions, whose events take less to write."""
_PATIENCE_OF_GLANCES_S = 3.0
LONGEST_LEASE_S = 1.03 * LEASE_MS / 1_000
"""By a clock that is slow."""
_OF_LINES = {"content-type": NDJSON}
_NEVER_MS = 4_000_000
"""Further ahead than clocks may be wrong."""
OF_IMPATIENCE: Expected = (
    EventsNotStoredError,
    OutcomeUnknownError,
    ServiceUnreachableError,
    UnavailableError,
)
OF_DELETION: Expected = (UnknownStreamError, StreamReplacedError, EventsNotStoredError)


class Pen:
    """Writes events in the book of a stream, as one process of a writer."""

    def __init__(
        self,
        program: Program,
        book: StreamBook,
        told: int | None,
        lag_ms: int = 0,
        *,
        keys: int = _KEYS,
        registers: bool = True,
    ) -> None:
        self._program = program
        self._lag_ms = lag_ms
        self._book = book
        self.promised = told or 0
        self.noted: int | None = None
        """What it noted last, accepted or not."""
        self.risen_s = -inf
        """When it promised more than before: the same again is no progress."""
        self._keys = keys
        self._times = book.promised.setdefault(program.name, []) if registers else []
        self._count = 0
        self._open: list[str] = []

    def event(self, *, unit: str = "", late_ms: int = 0, is_known: bool = True) -> Written:
        """Make an event, no honest one if it is ``late_ms`` below what was promised.

        Nor is it one before the service knows its writer, for nothing waits for that.
        """
        program = self._program
        self._count += 1
        time = clocks.true_ms() - program.random.randrange(_OLDEST_MS) - self._lag_ms
        made = Written(
            value=f"{program.name}#{program.process}:{self._count}",
            key=f"{program.name}/{program.random.randrange(self._keys)}",
            time=self.promised - late_ms if late_ms else max(time, self.promised),
            order=(program.process, self._count),
            writer=program.name,
            is_honest=is_known and not late_ms,
            unit=unit,
        )
        self._book.written[made.value] = made
        if not unit:
            self._open.append(made.value)
        return made

    def promise(self) -> int:
        time = clocks.true_ms() - self._program.random.randrange(_OLDEST_MS) - self._lag_ms
        if time > self.promised:
            self.promised, self.risen_s = time, self._program.world.listened_s
        insort(self._times, self.promised)
        return self.promised

    def note(self) -> int:
        """Return a time to note."""
        self.noted = self.promise()
        return self.noted

    def acknowledge(self) -> None:
        """Record that all is stored that was written outside transactions, and noted."""
        self._book.acknowledged |= set(self._open)
        self._open.clear()
        if self.noted is not None:
            self._book.accept(self._program.name, self.noted, self.risen_s)

    def forget(self) -> None:
        """Record that nobody knows whether what was written is stored."""
        self._open.clear()


class ReplacedError(Exception):
    """A registration of a process that is dead came late, and fenced the process after it."""


def unless_replaced(work: Work) -> Work:
    """Let work end with `ReplacedError` where it may be fenced: never that of a first process."""

    async def work_on(program: Program) -> None:
        try:
            await work(program)
        except WriterFencedError as error:
            if program.process == 1:
                raise
            raise ReplacedError from error

    return work_on


def write(
    world: World,
    book: StreamBook,
    *,
    transactions: float = 0.0,
    lies: float = 0.0,
    flushes: float = 0.6,
    lag_ms: int = 0,
    stays_s: float = inf,
    leaves: bool = False,
    patience: timedelta = PATIENCE,
) -> Work:
    """Write events, note time, flush, and commit transactions; come back now and then."""

    async def work(program: Program) -> None:
        random, stream = program.random, book.name
        writer = AsyncWriter(world.url(), stream, program.name, retry_for=patience)
        await writer.open()
        _find_left_open(program, book)
        pen = Pen(program, book, writer.registered_time, lag_ms)
        until_s = world.loop.time() + random.uniform(0.5, 1.5) * stays_s
        while world.is_writing:
            if world.loop.time() > until_s and not world.is_calm:
                await writer.close()
                until_s += stays_s
                writer = AsyncWriter(world.url(), stream, program.name, retry_for=patience)
                await writer.open()
            if random.random() < transactions and not world.is_calm:
                await _transact(writer, pen, program, book)
            elif not world.is_calm or random.random() < _OFTEN_IN_CALM:
                for _ in range(random.randrange(1, 5)):
                    late_ms = random.randrange(1, 500) if random.random() < lies else 0
                    await _write(writer, pen.event(late_ms=late_ms))
            if world.is_calm or random.random() < 0.8:
                writer.note_time(pen.note())
            if world.is_calm or random.random() < flushes:
                await writer.flush()
                pen.acknowledge()
            await _rest(program, 0.5)
        if leaves:
            await writer.leave()
        else:
            await writer.close()
        pen.acknowledge()

    return work


def _find_left_open(program: Program, book: StreamBook) -> None:
    """Find transactions that a registration has not ended."""
    stored = program.world.disk.look("SELECT name FROM outcomes WHERE state = 'open'")
    book.troubles += [
        f"left open: {one} of {program.name}"
        for (one,) in stored
        if book.begun.get(one) == program.name
    ]


async def _rest(program: Program, pause_s: float) -> None:
    """Do nothing for a while: in the calm for as long as watermarks allow, since requests cost."""
    pause_s = _REST_S if program.world.is_calm else pause_s
    await asyncio.sleep(program.random.uniform(0.2, 1.8) * pause_s)


async def _write(target: object, event: Written) -> None:
    await target.write(event.value, key=event.key, event_time=event.time)  # type: ignore[attr-defined]


class _ChangedItsMindError(Exception):
    """A writer aborts its transaction."""


async def _transact(writer: AsyncWriter, pen: Pen, program: Program, book: StreamBook) -> None:
    random, loop = program.random, program.world.loop
    unit, began_s, noted, strays = "", loop.time(), pen.noted, list[asyncio.Task[None]]()
    try:
        async with writer.transaction(timeout=_LEASE) as transaction:
            unit = transaction.id
            book.units[unit], book.begun[unit] = "open", program.name
            for _ in range(random.randrange(2, 6)):
                await _write(transaction, pen.event(unit=unit))
                if random.random() < 0.2:
                    await asyncio.sleep(random.random() * 0.3)
            if random.random() < 0.15:
                raise _ChangedItsMindError  # noqa: TRY301 (as users do)
            if random.random() < 0.6:
                noted = pen.promise()
                transaction.note_time(noted)
            if random.random() < 0.5:
                stray = pen.event(unit=unit)
                beside = stage_beside(program, book, unit, stray, _line(stray))
                strays.append(asyncio.create_task(beside))
    except _ChangedItsMindError:
        book.units[unit] = "aborted"
    except TransactionFinishedError as error:  # its lease ended while it reached nobody
        book.units[unit] = "aborted"
        if loop.time() - began_s < _LEASE.total_seconds():
            book.troubles.append(f"timed out early: {error!r} after {loop.time() - began_s} s")
    else:
        book.units[unit] = "committed"
        pen.noted = noted
        pen.acknowledge()  # a commit flushes
    await asyncio.gather(*strays)


def report(world: World, book: StreamBook) -> Work:
    """Write events to a log elsewhere, and note time for them."""

    async def work(program: Program) -> None:
        random = program.random
        reporter = AsyncTimeReporter(world.url(), book.name, program.name, retry_for=PATIENCE)
        await reporter.open()
        pen = Pen(program, book, reporter.registered_time)
        position = {one: len(events) for one, events in book.external.items()}
        while world.is_writing:
            for _ in range(random.randrange(1, 4)):
                partition = random.randrange(len(book.external))
                events = book.external[partition]
                events.append(pen.event())
                position[partition] = len(events)
            await reporter.note_time(pen.promise(), dict(position))
            await _rest(program, 0.6)
        await reporter.close()

    return work


def post_lines(world: World, book: StreamBook, *, is_keyed: bool) -> Work:
    """Append NDJSON and note time with it; without keys nothing is repeated that may be done."""
    promised: int | None = None

    async def work(program: Program) -> None:
        nonlocal promised
        transport = Transport(world.url(), retry_for=PATIENCE)
        pen = Pen(program, book, promised, keys=_ANY, registers=False)
        while world.is_writing:
            # Nobody waits for it before its first note is accepted.
            is_known = program.name in book.noted
            events = [
                pen.event(is_known=is_known) for _ in range(program.random.randrange(1, 4))
            ]
            headers = dict(_OF_LINES)
            if is_keyed:
                headers["idempotency-key"] = events[0].value
            promised, asked_s = pen.note(), world.loop.time()
            try:
                await transport.request(
                    "POST",
                    f"/v1/streams/{book.name}/events",
                    answer=EventsAppended,
                    body=b"".join(map(_line, events)),
                    headers=headers,
                    params={"writer": program.name, "note_time": str(promised)},
                    retry=is_keyed,
                )
            except (OutcomeUnknownError, ServiceUnreachableError):
                pen.forget()
            else:
                if asked_s < world.disk.went_back_s:
                    pen.forget()
                else:
                    pen.acknowledge()
            await _rest(program, 0.4)
        await transport.aclose()

    return work


def _line(event: Written) -> bytes:
    line = {"key": event.key, "event_time": event.time, "value": event.value}
    return f"{json.dumps(line)}\n".encode()


def publish(world: World, book: StreamBook, *, ends: bool = False) -> Work:
    """Publish the numbered batches of a job, again from the last that is not known to be done.

    One that ends does so in the calm, and asks for the stream to be sealed, which others still write to.
    """
    batches: dict[int, tuple[bytes, int]] = {}
    done = 0

    async def work(program: Program) -> None:
        nonlocal done
        transport = Transport(world.url(), retry_for=PATIENCE)
        path = f"/v1/streams/{book.name}/batches"
        pen = Pen(program, book, max((note for _, note in batches.values()), default=None))
        while world.is_writing or done < len(batches):
            number = done + 1
            unit = f"{program.name}/{number}"
            if number not in batches:
                count = program.random.randrange(1, 6)
                # The first batch registers its writer.
                events = [pen.event(unit=unit, is_known=done > 0) for _ in range(count)]
                rows = [
                    {"key": one.key, "event_time": one.time, "value": one.value.encode()}
                    for one in events
                ]
                batch = pa.RecordBatch.from_pylist(rows, schema=EVENT_SCHEMA)
                batches[number] = encode_events(batch), pen.promise()
                book.units[unit] = "open"
            encoded, note = batches[number]
            is_last = ends and world.is_calm
            body: BatchOfTransactions | bytes = encoded
            headers = {"content-type": ARROW}
            if done and program.random.random() < 0.5:
                body, headers = await _stage(transport, program, book, encoded), {}
            try:
                await transport.request(
                    "POST",
                    f"{path}/{number}",
                    answer=BatchAppended,
                    body=body,
                    headers=headers,
                    params={"writer": program.name, "note_time": str(note)}
                    | ({"seal": "true"} if is_last else {}),
                    retry=True,
                )
            except TransactionFinishedError:
                continue  # its lease ended while nobody was reached
            book.units[unit] = "committed"
            done = number
            if is_last:
                break
            await _rest(program, 1.0)
        await transport.aclose()

    return work


async def _stage(
    transport: Transport, program: Program, book: StreamBook, events: bytes
) -> BatchOfTransactions:
    """Stage the events of a batch, as a task of Spark does; the commit chooses their segments."""
    path = f"/v1/streams/{book.name}/transactions"
    begin = BeginTransaction(
        writer=program.name, timeout_ms=_LEASE // timedelta(milliseconds=1)
    )
    begun = await transport.request(
        "POST", path, answer=TransactionBegun, body=begin, retry=True
    )
    headers = {"content-type": ARROW, SEQUENCE_HEADER: "1"}
    path = f"{path}/{begun.id}/segments/0/events"
    with suppress(TransactionFinishedError):  # whoever publishes it hears so, too
        await transport.request(
            "POST", path, answer=EventsStaged, body=events, headers=headers, retry=True
        )
    return BatchOfTransactions(transactions=[begun.id])


def read(world: World, book: GroupBook, *, stays_s: float = 30.0) -> Work:
    """Read as a member of a group, look at its window, and make checkpoints."""

    async def work(program: Program) -> None:
        random = program.random
        # Whoever had another name and died is taken offline; one of the same name is replaced.
        name = random.choice([program.name, f"{program.name}-{program.process}"])
        reader = AsyncReader(world.url(), book.name, name, retry_for=PATIENCE)
        until_s = world.loop.time() + random.uniform(0.5, 2) * stays_s
        joined = 1
        while world.is_reading:
            events = await reader.read_next(wait_ms=2_000, limit=random.randrange(1, 60))
            book.join(f"{name}, {program.node}, {joined}", reader.epoch)
            for event in events:
                if random.random() < 0.1:
                    await asyncio.sleep(random.random() * 0.03)
                book.take(event.value.decode())
            if book.checkpoints and not _has_checkpoint(world.disk, book.name):
                book.stream.troubles.append(f"forgotten: {book.checkpoints[-1]} of {book.name}")
            if random.random() < 0.1 and not world.is_calm:
                position = (await reader.checkpoint("here")).get(book.stream.name, {})
                book.checkpoints.append(Checkpoint(tuple(position.items()), len(book.got)))
            if random.random() < 0.3:
                await _look_at_window(reader, book)
            if random.random() < 0.03 and not world.is_calm:
                former, joined = reader, joined + 1
                reader = AsyncReader(world.url(), book.name, name, retry_for=PATIENCE)
                await take_over(former, name, book, reader)
            if world.loop.time() > until_s:
                await reader.close()
                await asyncio.sleep(random.random())
                until_s, joined = world.loop.time() + stays_s, joined + 1
                reader = AsyncReader(world.url(), book.name, name, retry_for=PATIENCE)
        await reader.close()

    return work


async def _look_at_window(reader: AsyncReader, book: GroupBook) -> None:
    of_stream = {"stream": book.stream.name}
    window = await reader.group.call("GET", "/time-window", TimeWindowInfo, params=of_stream)
    if window.lower is not None:
        at = tuple(window.position.items())
        book.windows.append(Window(window.lower, window.upper, at, len(book.got)))


def _has_checkpoint(disk: Disk, group: str) -> bool:
    """Return whether the disk has the one that readers make again and again."""
    found = "SELECT json_extract(state, '$.checkpoints.here') FROM reader_groups"
    return disk.look(f"{found} WHERE scope || '/' || reader_group = ?", group) != [(None,)]


def watch(world: World, book: StreamBook) -> Work:
    """Watch the marks of a stream: they follow one another, and neither lower nor cut goes back."""

    async def work(program: Program) -> None:
        client = AsyncStreamClient(world.url(), book.name, retry_for=PATIENCE)
        newest: Mark | None = None
        while world.is_reading:
            after = 0 if newest is None else newest.revision
            for mark in await client.marks(after=after, wait_ms=900):
                book.see(mark, program.name)
                if newest is not None and mark.lower <= newest.lower:
                    book.troubles.append(
                        f"goes back: {program.name} saw {newest} and then {mark}"
                    )
                newest = mark
            if newest is not None and newest.final:
                return
        await client.aclose()

    return work


def glance(world: World, book: StreamBook, pause_s: float = 0.2, appends: float = 0.0) -> Work:
    """Ask one controller, and another: nobody is told what is older than the question.

    Now and then one is asked to append something.
    """
    # Not a client that goes to the holder: also those are asked that hold no more.
    client = httpx.AsyncClient(transport=world.network, timeout=_PATIENCE_OF_GLANCES_S)
    disk, holder = world.disk, ""

    async def ask(program: Program, method: str, path: str, **more: Any) -> httpx.Response:
        nonlocal holder
        url = holder if holder and program.random.random() < 0.6 else world.url()
        answer = await client.request(method, f"{url}/v1/streams/{book.name}{path}", **more)
        holder = url if answer.is_success else holder
        return answer

    async def append(program: Program, pen: Pen) -> None:
        made = pen.event(is_known=False)
        pen.forget()
        asked_s = world.loop.time()
        with suppress(httpx.TransportError):
            line = _line(made)
            answer = await ask(program, "POST", "/events", content=line, headers=_OF_LINES)
            if answer.is_success and asked_s >= disk.went_back_s:
                book.acknowledged.add(made.value)

    async def look(program: Program) -> None:
        stored = len(book.acknowledged)
        known = tuple(map(max, book.seen, (0, 0, stored, 0, 0)))
        asked_s = world.loop.time()
        with suppress(httpx.TransportError):
            answer = await ask(program, "GET", "")
            since_s = disk.knows_since(answer.url.host, LONGEST_LEASE_S)
            if answer.is_success and asked_s >= since_s:
                told = _growing(StreamInfo.model_validate_json(answer.content))
                there = stored_of(disk, book.name)
                if book.truncated_below is None and any(map(gt, told, there)):
                    said = f"{program.name} was told {told}"
                    book.troubles.append(f"not stored: {said}, and there is {there}")
                if any(now < before for now, before in zip(told, known, strict=True)):
                    said = f"{program.name} knew {known}, and was told {told}"
                    book.troubles.append(f"old: {said}")
                book.grow(told)

    async def work(program: Program) -> None:
        pen = Pen(program, book, None, keys=_ANY)
        async with asyncio.TaskGroup() as calls:
            while not world.is_calm:
                is_append = program.random.random() < appends
                # One that waits keeps no other waiting.
                calls.create_task(append(program, pen) if is_append else look(program))
                await asyncio.sleep(program.random.random() * 2 * pause_s)

    return work


def stored_of(disk: Disk, name: str) -> tuple[int, ...]:
    """Return what the disk has of a stream: its watermark, marks and events."""
    marks = "SELECT max(lower), max(revision) FROM marks JOIN streams ON key = stream_key"
    events = "SELECT sum(events) FROM chunks JOIN streams ON key = stream_key"
    which = "WHERE scope || '/' || stream = ?"
    found = [*disk.look(f"{marks} {which}", name), *disk.look(f"{events} {which}", name)]
    return tuple(one or 0 for row in found for one in row)


def _growing(info: StreamInfo) -> tuple[int, ...]:
    """Return what of a stream only grows: watermark, marks, events, segments, and truncated events."""
    topology = info.topology.to_topology()
    gone = down_set(topology, info.first_cut or {})
    tail = sum((info.tail or {}).values())
    return info.watermark or 0, info.revision, tail, len(topology.segments), sum(gone.values())


def create(world: World, book: StreamBook, groups: list[GroupBook]) -> Work:
    """Create a stream and its groups."""

    async def work(_program: Program) -> None:
        client = AsyncStreamClient(world.url(), book.name, retry_for=PATIENCE)
        await client.create(**book.settings)
        for one in groups:
            group = AsyncReaderGroup(world.url(), one.name, retry_for=PATIENCE)
            await group.create(
                [book.name],
                start="earliest",
                heartbeat_ms=800,
                dead_after_ms=DEAD_AFTER_MS,
            )
            await group.aclose()
        await client.aclose()

    return work


def operate(
    world: World, book: StreamBook, acts: list[str], *, pause_s: float, by_the_clock: bool
) -> Work:
    """Do what operators do, again and again, while there is writing; by the clock several meet."""
    all_acts: dict[str, Callable[[AsyncStreamClient, Program, StreamBook], object]] = {
        "scale": _scale,
        "truncate": _truncate,
        "force": partial(_truncate, force=True),
        "look": _look,
    }

    async def work(program: Program) -> None:
        client = AsyncStreamClient(world.url(), book.name, retry_for=PATIENCE)
        while world.is_writing:
            if by_the_clock:
                await asyncio.sleep(pause_s - asyncio.get_running_loop().time() % pause_s)
            else:
                await _rest(program, pause_s)
            act = all_acts[program.random.choice(acts)]
            await act(client, program, book)  # type: ignore[misc]
        await client.aclose()

    return work


async def _scale(client: AsyncStreamClient, program: Program, _book: StreamBook) -> None:
    random = program.random
    topology = (await client.describe()).topology.to_topology()
    growing = sorted(topology.unsealed, key=lambda one: topology[one].key_range.low)  # type: ignore[union-attr]
    at = random.randrange(len(growing))
    try:
        if len(growing) > 1 and random.random() < 0.5:
            await client.merge(growing[max(0, at - 1) : max(0, at - 1) + 2])
        else:
            await client.split(growing[at], parts=random.choice([1, 2, 2, 3]))
    except (TopologyChangedError, SegmentLimitError):
        pass


async def _truncate(
    client: AsyncStreamClient, program: Program, book: StreamBook, *, force: bool = False
) -> None:
    info = await client.describe()
    if info.watermark is None:
        return
    time = info.watermark - program.random.randrange(1_000)
    # Also where it is refused: a copy may come late, when groups have read on.
    book.truncated_below = max(time, book.truncated_below or 0)
    with suppress(EventsNeededError):
        await client.truncate(time=time, force=force)


async def _look(client: AsyncStreamClient, program: Program, book: StreamBook) -> None:
    await client.explain()
    at = program.random.choice(sorted(book.acknowledged) or [""])
    if at:
        watermark = book.seen[0]
        found = await client.marks_at_time(book.written[at].time)
        book.starts.append((found.time, dict(found.start or {})))
        stop = None if found.stop is None else found.stop.revision
        book.stops.append((found.time, stop, watermark))


def seal_at_end(world: World, book: StreamBook, writers: list[Program]) -> Work:
    """Seal a stream once its writers have ended."""

    async def work(_program: Program) -> None:
        while not all(one.is_done for one in writers):
            await asyncio.sleep(0.05)
        if stored_of(world.disk, book.name)[0] == END_OF_TIME:
            book.troubles.append("sealed early: nobody has asked for it yet")
        client = AsyncStreamClient(world.url(), book.name, retry_for=PATIENCE)
        await client.seal()
        await client.aclose()

    return work


def recreate(world: World, book: StreamBook) -> Work:
    """Create a stream, write to it, and delete it, over and over; nothing of one is in the next."""
    known: set[str] = set()

    async def work(program: Program) -> None:
        while not world.is_calm:
            await asyncio.sleep(program.random.choice([0.0, 0.05, 0.5, 1.0]))
            client = AsyncStreamClient(world.url(), book.name, retry_for=PATIENCE)
            await client.create(**book.settings)
            info = await client.describe()
            if info.stream_id not in known and (
                info.revision or any((info.tail or {}).values())
            ):
                book.troubles.append(f"not new: {info}")
            known.add(info.stream_id)
            writer = AsyncWriter(world.url(), book.name, program.name, retry_for=PATIENCE)
            await writer.open()
            pen = Pen(program, book, writer.registered_time)
            await _write(writer, pen.event())
            writer.note_time(pen.promise())
            await writer.close()
            if program.random.random() < 0.7:
                await client.delete()
            await client.aclose()

    return work


def prophesy(world: World, book: StreamBook) -> Work:
    """Note the present time, and then one that nobody can know, which is to be refused."""

    async def work(program: Program) -> None:
        while world.is_writing:
            writer = AsyncWriter(world.url(), book.name, program.name, retry_for=PATIENCE)
            await writer.open()
            writer.note_time(Pen(program, book, writer.registered_time).promise())
            await writer.flush()
            try:
                writer.note_time(clocks.true_ms() + _NEVER_MS)
                await writer.close()
            except TimeInFutureError:
                await _rest(program, 0.5)
            else:
                book.troubles.append(f"believed: {program.name} is {_NEVER_MS} ms ahead")
                return

    return work


def silent(world: World, book: StreamBook, *, beats: bool = False, lag_ms: int = 0) -> Work:
    """Note one time, and then nothing more, or the same again and again."""

    async def work(program: Program) -> None:
        reporter = partial(AsyncWriter, beat="always") if beats else AsyncWriter
        writer = reporter(world.url(), book.name, program.name, retry_for=PATIENCE)
        await writer.open()
        pen = Pen(program, book, writer.registered_time, lag_ms)
        writer.note_time(pen.note())
        await writer.flush()
        pen.acknowledge()
        while world.is_writing:
            await asyncio.sleep(0.5)

    return work
