"""What must hold at the end of a run, whatever happened."""

import asyncio
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from math import inf
from typing import Any

from reader_client import AsyncReaderGroup, AsyncStreamClient
from tests.simulation import clocks
from tests.simulation.clients import PATIENCE
from tests.simulation.cluster import LEASE_MS
from tests.simulation.ledger import GroupBook, StreamBook, Window, Written
from tests.simulation.world import World
from tidegauge.errors import TruncatedError
from tidegauge.marks import Mark
from tidegauge.topology import Topology

_CALM_S = 9.0
"""How long watermarks may take to get there; a database that hangs does so for up to 2.5 s more."""
_LEAST_CALM_S = 2.5
"""How long it is calm, although they are there: what was under way arrives."""
_LATEST_MS = 3_000
"""How far a watermark may be behind the time that writers note, once it is calm."""
_BOUND_S = 2 * LEASE_MS / 1_000 + 1
"""Of a take-over, but for reading."""
_READING_S = 3.0
_OFTEN_S = 0.05
_STAMPED_MS = 100
"""How long the last batch of a tenure takes."""
_STAMPED_S = 0.6
"""How often a controller looks whether it is certain, twice."""
_OVERSEEN = "take-over", "stands by", "listens"
_MOST_REFUSALS = 100
"""In a second: clients repeat what they ask for a few times, and a controller asks four times."""
_SKEW_MS = 500
"""How far the clocks of two controllers differ at most."""


@dataclass
class Found:
    """What a stream holds at the end."""

    topology: Topology
    tail: dict[int, int]
    first_cut: dict[int, int]
    watermark: int | None
    stands: dict[str, int]
    """By writer, the time that it noted last."""
    events: dict[int, list[tuple[int, str]]] = field(default_factory=dict)
    """By segment: offset and value."""
    marks: list[Mark] = field(default_factory=list)

    @property
    def values(self) -> set[str]:
        return {value for events in self.events.values() for _, value in events}

    def __post_init__(self) -> None:
        self.ancestors: dict[int, set[int]] = {}
        for number in sorted(self.topology.segments):  # successors have higher numbers
            before = self.topology[number].predecessors
            self.ancestors[number] = set(before).union(*(self.ancestors[one] for one in before))


async def judge_lateness(world: World) -> list[str]:
    """Wait for watermarks near the time that it is, while the writers note it; tell of those that are not."""
    await asyncio.sleep(_LEAST_CALM_S)
    while not all(one.is_up for one in world.controllers):  # one that ends has its grace
        await asyncio.sleep(0.1)
    ends = world.loop.time() + _CALM_S - _LEAST_CALM_S
    while (faults := await _late_watermarks(world)) and world.loop.time() < ends:
        await asyncio.sleep(0.5)
    return faults


async def _late_watermarks(world: World) -> list[str]:
    faults = []
    for book in world.ledger.streams.values():
        if book.is_gone or not book.live_writers:
            continue
        client = AsyncStreamClient(world.url(), book.name, retry_for=PATIENCE)
        explained = await client.explain()
        await client.aclose()
        late_ms = clocks.true_ms() - (explained.watermark or 0)
        if late_ms > _LATEST_MS:
            faults.append(
                f"late watermark: that of {book.name} is {late_ms} ms behind: "
                f"{explained.explanation.sentence}"
            )
    return faults


async def look(world: World, book: StreamBook) -> Found:
    """Read all that a stream holds; anew if retention drops some of it meanwhile."""
    while True:
        client = AsyncStreamClient(world.url(), book.name, retry_for=PATIENCE)
        async with aclosing(client):
            with suppress(TruncatedError):
                return await _look(client)


async def _look(client: AsyncStreamClient) -> Found:
    info = await client.describe()
    topology = info.topology.to_topology()
    stands = {one.writer: one.stand or 0 for one in await client.writers()}
    found = Found(topology, info.tail or {}, info.first_cut or {}, info.watermark, stands)
    for segment, end in found.tail.items():
        start = _first_offset(found, segment)
        events = found.events.setdefault(segment, [])
        async for page in client.read(segment, start, end):
            for offset, value in enumerate(page.batch["value"].to_pylist(), page.first_offset):
                events.append((offset, value.decode()))
    after = 0
    while page_of_marks := await client.marks(after=after):
        found.marks += page_of_marks
        after = page_of_marks[-1].revision
    return found


def _first_offset(found: Found, segment: int) -> int:
    if segment in found.first_cut:
        return found.first_cut[segment]
    later = {one for one in found.first_cut if segment in found.ancestors[one]}
    return found.tail[segment] if later else 0


def judge(world: World, book: StreamBook, found: Found) -> list[str]:
    """Judge what one stream holds."""
    faults = [*book.troubles, *_judge_marks(book, found), *_judge_notes(book, found)]
    if not book.external:
        values = [value for _, events in sorted(found.events.items()) for _, value in events]
        faults += [*_judge_events(book, values), *_judge_order(book, values)]
        faults += _judge_starts(book, found)
        if book.truncated_below is None:
            faults += [*_judge_units(book, values), *_judge_stops(book, found)]
        groups = [one for one in world.ledger.groups.values() if one.stream is book]
        for group in groups:
            faults += _judge_group(group, book, found, values)
        faults += _judge_truncation(book, values, groups)
    faults += [*_judge_cuts(book, found), *_judge_uppers(book, found)]
    return [one.replace(": ", f": {book.name}, ", 1) for one in faults]


def _judge_events(book: StreamBook, values: list[str]) -> list[str]:
    counts = Counter(values)
    faults = [f"stored twice: {n} times {value}" for value, n in counts.items() if n > 1]
    faults += [f"never written: {one} is stored" for one in counts if one not in book.written]
    if book.truncated_below is None:
        missing = sorted(book.acknowledged - counts.keys())
        faults += [f"lost: {one} was acknowledged" for one in missing]
    return faults


def _judge_notes(book: StreamBook, found: Found) -> list[str]:
    return [
        f"lost: {writer} noted {time}, and stands at {found.stands.get(writer)}"
        for writer, time in book.noted.items()
        if found.stands.get(writer, 0) < time and writer not in book.dropped
    ]


def _judge_starts(book: StreamBook, found: Found) -> list[str]:
    """Find events that whoever starts where a time is said to start would miss."""
    faults = []
    for time, start in book.starts:
        counts = _counts(found, start.items())
        for segment, events in found.events.items():
            faults += [
                f"missed: {value} at {segment}:{offset}, by whoever starts for {time} at {start}"
                for offset, value in events
                if offset < counts[segment]
                and value in book.written
                and book.written[value].time >= time
            ]
    return faults[:3]


def _judge_stops(book: StreamBook, found: Found) -> list[str]:
    """Find marks to stop at that are not the first ones, and such as there were already."""
    faults = []
    for time, stop, watermark in book.stops:
        first = next((one.revision for one in found.marks if one.lower >= time), None)
        if stop != first and (stop is not None or watermark >= time):
            faults.append(f"stops: for {time} at mark {stop}, and the first one is {first}")
    return faults[:3]


def _judge_order(book: StreamBook, values: list[str]) -> list[str]:
    """Find events of one key out of order; a key goes from a segment to one of a higher number."""
    faults = []
    newest: dict[str, Written] = {}
    for one in (book.written[value] for value in values if value in book.written):
        before = newest.get(one.key)
        if before is not None and one.order < before.order:
            faults.append(f"out of order: {one.value} of {one.key} behind {before.value}")
        newest[one.key] = one
    return faults


def _judge_units(book: StreamBook, values: list[str]) -> list[str]:
    """Find transactions and batches of which there are only some events, or none, or any."""
    stored = set(values)
    units: dict[str, list[bool]] = {}
    for one in book.written.values():
        if one.unit:
            units.setdefault(one.unit, []).append(one.value in stored)
    faults = []
    for unit, are_there in units.items():
        state = book.units.get(unit, "open")
        if any(are_there) and (state == "aborted" or not all(are_there)):
            faults.append(f"not whole: {unit}, {state}, has {sum(are_there)} of its events")
        if state == "committed" and not any(are_there):
            faults.append(f"not whole: {unit}, committed, has none of its events")
    return faults


def _judge_marks(book: StreamBook, found: Found) -> list[str]:
    faults = []
    for before, after in zip(found.marks, found.marks[1:], strict=False):
        if after.lower <= before.lower or after.revision <= before.revision:
            faults.append(f"goes back: the marks {before} and then {after}")
        here, there = _counts(found, before.cut.items()), _counts(found, after.cut.items())
        if any(there[one] < count for one, count in here.items()):
            faults.append(f"goes back: the cuts of {before} and then {after}")
    stored = {one.revision: one for one in found.marks}
    for revision, mark in sorted(book.marks.items()):
        now = stored.get(revision)
        if now is None and revision > min(stored, default=0):
            if book.truncated_below is None:
                faults.append(f"mark changed: {mark} was seen, and is gone")
        elif now is not None and now != mark:
            faults.append(f"mark changed: {mark} was seen, and {now} is stored")
    return faults


def _judge_uppers(book: StreamBook, found: Found) -> list[str]:
    """Find marks behind whose cuts a writer had noted more than they say.

    It had noted something below the mark, so it was known when that was made. The first time at or above the
    mark is in its cut with the position before.
    """
    faults = []
    for mark in (one for one in found.marks if not one.final):
        for writer, promised in book.promised.items():
            first = bisect_left(promised, mark.lower)
            if (
                book.firsts.get(writer, inf) < mark.lower
                and writer not in book.dropped
                and first < len(promised)
                and promised[first] > mark.upper
                and promised[first] <= book.noted[writer]
            ):
                faults.append(f"upper: {writer} noted {promised[first]}, and there is {mark}")
    return faults[:3]


def _counts(found: Found, position: Iterable[tuple[int, int]]) -> dict[int, float]:
    """Count the events before a position in each segment."""
    offsets = dict(position)
    full = set().union(*(found.ancestors[number] for number in offsets))
    lengths = {one: found.topology[one].sealed_length for one in found.ancestors}
    return {
        one: lengths[one] or 0 if one in full else min(offsets.get(one, 0), lengths[one] or inf)
        for one in found.ancestors
    }


def _judge_cuts(book: StreamBook, found: Found) -> list[str]:
    """Find honest events behind a cut that says that there are none."""
    placed = [
        (segment, offset, book.written[value])
        for segment, events in found.events.items()
        for offset, value in events
        if value in book.written
    ]
    for segment, written in book.external.items():
        placed += [(segment, offset, one) for offset, one in enumerate(written)]
    faults = []
    for mark in found.marks:
        counts = _counts(found, mark.cut.items())
        for segment, offset, one in placed:
            if one.time >= mark.lower or not one.is_honest or one.writer in book.dropped:
                continue
            if offset >= counts[segment]:
                faults.append(
                    f"behind a cut: {one.value} of {one.time} at {segment}:{offset}, and {mark}"
                )
    return faults[:3]


def _judge_group(
    group: GroupBook, book: StreamBook, found: Found, values: list[str]
) -> list[str]:
    faults = [
        f"never read: {group.name} got nothing of {value}"
        for value in values
        if value not in group.got
    ]
    for window in group.windows:
        if book.truncated_below is None:  # else marks are missing
            faults += _judge_upper(window, found)
        for value in values:
            one = book.written.get(value)
            if one is None or not one.is_honest or one.writer in book.dropped:
                continue
            if one.time < window.lower and group.got.get(value, window.got) >= window.got:
                faults.append(f"window: {group.name} is at {window}, and had not got {one}")
    for checkpoint in group.checkpoints:
        counts = _counts(found, checkpoint.position)
        for segment, events in found.events.items():
            before = (value for offset, value in events if offset < counts[segment])
            faults += [
                f"checkpoint: {group.name} was at {checkpoint}, and had not got {value}"
                for value in before
                if group.got.get(value, checkpoint.got) >= checkpoint.got
            ]
    newest: dict[str, int] = {}
    for value in (one for one in values if one in group.got and one in book.written):
        key, at = book.written[value].key, group.got[value]
        if at < newest.setdefault(key, at):
            faults.append(f"read out of order: {group.name} got {value} of {key} too early")
        newest[key] = at
    return faults[:5]


def _judge_upper(window: Window, found: Found) -> list[str]:
    """Find a window whose upper end is not that of the first mark which it is before."""
    here = _counts(found, window.position)
    for mark in found.marks:
        there = _counts(found, mark.cut.items())
        if here != there and all(count <= there[one] for one, count in here.items()):
            if window.upper not in {None, mark.upper}:  # there may have been no mark yet
                return [f"window: {window} is before {mark}"]
            break
    return []


async def _judge_needs(world: World, group: GroupBook, found: Found) -> list[str]:
    """Find checkpoints that lack events behind them."""
    client = AsyncReaderGroup(world.url(), group.name, retry_for=PATIENCE)
    state, _ = await client.state()
    await client.aclose()
    faults = []
    for name, offsets in state.checkpoints.items():
        counts = _counts(found, ((ref.segment, offset) for ref, offset in offsets.items()))
        for segment in found.tail:
            first = _first_offset(found, segment)
            if first > counts[segment]:
                needs = f"{group.name} needs {segment}:{counts[segment]} for {name}"
                faults.append(f"truncated: up to {first}, and {needs}")
    return faults


def _judge_truncation(
    book: StreamBook, values: list[str], groups: list[GroupBook]
) -> list[str]:
    if book.truncated_below is None:
        return []
    if book.keeps_ms:
        kept = clocks.true_ms() - book.keeps_ms + _SKEW_MS
        book.truncated_below = max(book.truncated_below, kept)
    stored = set(values)
    faults = []
    for value in sorted(book.acknowledged - stored):
        if book.written[value].time >= book.truncated_below:
            faults.append(f"truncated: {value}, which is not below {book.truncated_below}")
        lacking = [group.name for group in groups if value not in group.got]
        faults += [f"truncated: {value}, which {name} needs" for name in lacking]
    return faults


async def judge_all(world: World) -> list[str]:
    """Judge all streams, and whether a controller that starts anew says the same."""
    network = world.network
    faults = [*world.ledger.troubles, *(f"raised: {one!r}" for one in network.raised)]
    faults += [*network.troubles[:5], *world.disk.troubles[:5]]
    faults += [
        f"busy: {count} transactions were refused in second {second}"
        for second, count in world.disk.refusals.items()
        if count > _MOST_REFUSALS
    ]
    for controller in (one for one in world.controllers if one.is_up):
        ailments = controller.app.process.ailments()
        faults += [f"ill: {controller.node}, {one}" for one in ailments]
    faults += [
        one for book in world.ledger.streams.values() if book.is_gone for one in book.troubles
    ]
    books = [one for one in world.ledger.streams.values() if not one.is_gone]
    before = {book.name: await look(world, book) for book in books}
    for book in books:
        faults += judge(world, book, before[book.name])
        faults += await _judge_holds(world, book)
    for group in world.ledger.groups.values():
        faults += await _judge_needs(world, group, before[group.stream.name])
    faults += await _judge_leaving(world)
    del world.controllers[1:]
    world.controllers[0].start()
    while not world.controllers[0].is_up:
        await asyncio.sleep(0.05)
    for book in books:
        faults += _judge_new_start(book, before[book.name], await look(world, book))
    return faults


async def _judge_holds(world: World, book: StreamBook) -> list[str]:
    client = AsyncStreamClient(world.url(), book.name, retry_for=PATIENCE)
    async with aclosing(client):
        await client.holds()
        info = await client.describe()
    now_s = world.loop.time()
    return world.passes.judge(book.name, info.stream_id, world.disk, now_s=now_s)


async def _judge_leaving(world: World) -> list[str]:
    """Let all controllers leave; the holder must have stored its listening time."""
    world.is_over = True
    left = [one for one in world.controllers if one.holds]
    for controller in world.controllers:
        controller.stop()
    await asyncio.gather(*(one.until_ended() for one in world.controllers))
    ((stored_ms,),) = world.disk.look("SELECT listening_ms FROM listening")
    return [
        f"listening time: {one.node} left at {one.left_ms} ms, and {stored_ms} ms are stored"
        for one in left
        if stored_ms < one.left_ms - _STAMPED_MS
    ]


async def oversee(world: World) -> None:
    """Find two that hold, and take-overs that do not end in time though a controller could have taken over.

    A controller could if nothing has happened to it for so long.
    """
    row: Any = None
    changed_s = 0.0
    could = {one.name: 0.0 for one in world.controllers}
    reading_since = dict(could)
    listening = _Listening(world)
    while not world.is_over:
        await asyncio.sleep(_OFTEN_S)
        now_s, disk = world.loop.time(), world.disk
        for one in world.controllers:
            if not one.is_up or one.node.is_paused:
                could[one.name] = now_s
            if not one.is_reading:
                reading_since[one.name] = now_s
            could[one.name] = max(could[one.name], disk.disturbed.get(one.name, 0.0))
        _judge_certainty(world)
        listening.look()
        found = disk.look("SELECT id, number FROM holder")
        if found != row:
            row, changed_s = found, now_s
        for one in world.controllers:
            able_s = now_s - max(could[one.name], disk.full_until, disk.crashed_s)
            if min(now_s - changed_s, able_s) > _BOUND_S:
                world.ledger.troubles.append(f"take-over: {one.node} could, and nobody holds")
            if min(now_s - reading_since[one.name], able_s) > _READING_S:
                world.ledger.troubles.append(f"take-over: {one.node} reads for too long")
        if world.ledger.troubles and world.ledger.troubles[-1].startswith(_OVERSEEN):
            return


class _Listening:
    """Finds listening time that goes back, or goes on while its controller is not certain."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._stored: tuple[float, int] = world.disk.went_back_s, 0
        self._certain_s: dict[str, float] = {}
        """By process, when it was certain or paused last."""
        self._known: dict[str, int] = {}

    def look(self) -> None:
        world, disk = self._world, self._world.disk
        ((stored_ms,),) = disk.look("SELECT coalesce(max(listening_ms), 0) FROM listening")
        went_back_s, before_ms = self._stored
        if stored_ms < before_ms and went_back_s == disk.went_back_s:
            world.ledger.troubles.append(f"listens: {stored_ms} ms behind {before_ms} ms")
        self._stored = disk.went_back_s, stored_ms
        for one in world.controllers:
            tenure = one.app.process.tenure if one.is_up else None
            if tenure is None or one.node.is_paused or one.is_certain:
                self._certain_s[one.name] = world.loop.time()
                continue
            now_ms = one.node.context.run(tenure.parts.clocks.listening.now_ms)
            known_ms = self._known.get(one.name, now_ms)
            self._known[one.name] = now_ms
            since_s = world.loop.time() - self._certain_s.get(one.name, inf)
            if since_s > _STAMPED_S and known_ms < now_ms:
                world.ledger.troubles.append(f"listens: {one.node} is not certain")


def _judge_certainty(world: World) -> None:
    certain = [
        str(controller.node) for controller in world.controllers if controller.is_certain
    ]
    if len(certain) > 1:
        world.ledger.troubles.append(f"stands by: {' and '.join(certain)} hold")


def _judge_new_start(book: StreamBook, known: Found, found: Found) -> list[str]:
    marks = {one.revision: one for one in found.marks}
    is_truncated = book.truncated_below is not None  # then old marks go in the background
    faults = [
        f"new start: {book.name} has not {one}"
        for one in known.marks
        if marks.get(one.revision, one if is_truncated else None) != one
    ]
    faults += [
        f"new start: {book.name} has other events in segment {segment}"
        for segment, events in known.events.items()  # a policy may have added other segments
        if not _is_same(events, found.events.get(segment, []), is_truncated=is_truncated)
    ]
    if (found.watermark or 0) < (known.watermark or 0):
        faults.append(f"new start: {book.name} has a lower watermark")
    for writer, stand in known.stands.items():
        if found.stands.get(writer, 0) < stand and writer not in book.dropped:
            faults.append(f"new start: {writer} of {book.name} does not stand at {stand}")
    return faults


def _is_same(
    known: list[tuple[int, str]], found: list[tuple[int, str]], *, is_truncated: bool
) -> bool:
    return known[len(known) - len(found) :] == found if is_truncated else known == found
