"""Who does what in a run, and when faults happen.

A *story* is about one subject and makes some two hundred requests; the *long* form has several
at once, for some 20 s. Both have the same course: things are created, faults happen for a while, then it
is calm, the writers end, the readers read to the end, and the judge has its say. Few requests are
made in the calm, which would find little and cost most.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

from controller.background import maintenance
from tests.simulation import clients, rivals
from tests.simulation.cluster import LEASE_MS, Controller
from tests.simulation.disk import Disk, Stuck
from tests.simulation.judge import look
from tests.simulation.ledger import GroupBook, StreamBook
from tests.simulation.network import Network
from tests.simulation.world import Expected, Program, Work, World

_READ_OUT_S = 30.0
"""How long readers may take to read to the end."""
_LONGER_S = 5.0
OFTEN_S = 0.25
"""How often logs are maintained where that is the subject: two seconds are long in a story."""
_EXACT = {"mark_interval_ms": 0, "mark_resolution_ms": 0}
_FOR_EVER = {"aggregation_timeout_ms": None, "hold_limit_ms": None}


class Course(NamedTuple):
    """How long faults happen, and how many subjects there are."""

    faults_s: float
    subjects: int
    about: str | None = None
    """The subject; the seed chooses if left out."""


STORY = Course(faults_s=4.0, subjects=1)
LONG = Course(faults_s=14.0, subjects=3)


class Cast:
    """The streams and programs of a run."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.creators: list[Program] = []
        self.writers: list[Program] = []
        self._waiting: list[Program] = []

    def stream(self, name: str, groups: int = 1, **settings: object) -> StreamBook:
        book = self.world.stream(f"s/{name}", **{"segments": 2} | _EXACT | _FOR_EVER | settings)
        read = [self.world.group(f"{book.name}-{at}", book) for at in range(groups)]
        work = clients.create(self.world, book, read)
        self.creators.append(Program(self.world, f"creator-{name}", work))
        for group in read:
            for number in range(2):
                work = clients.read(self.world, group, stays_s=6.0 if number else 60.0)
                self.other(f"reader{number}", group, work, rivals.OF_READERS)
        if groups or "log" in settings:
            self.other("watcher", book, clients.watch(self.world, book))
        return book

    def write(self, book: StreamBook, count: int, **more: Any) -> list[Program]:
        return [
            self.writer(book, clients.write(self.world, book, **more)) for _ in range(count)
        ]

    def writer(self, book: StreamBook, work: Work, expects: Expected = ()) -> Program:
        """Add one that notes the present time, again and again, until the end."""
        work = clients.unless_replaced(work)
        name = f"w{len(self.writers)}"
        program = self.other(name, book, work, (clients.ReplacedError, *expects))
        book.live_writers.add(program.name)
        self.writers.append(program)
        return program

    def other(
        self, name: str, of: StreamBook | GroupBook, work: Work, expects: Expected = ()
    ) -> Program:
        program = Program(self.world, f"{name}-{of.name[2:]}", work, expects)
        self._waiting.append(program)
        return program

    def operator(
        self, book: StreamBook, *acts: str, pause_s: float, by_the_clock: bool = False
    ) -> None:
        work = clients.operate(
            self.world, book, list(acts), pause_s=pause_s, by_the_clock=by_the_clock
        )
        self.other(f"operator{len(self._waiting)}", book, work)

    async def begin(self) -> None:
        for program in self.creators:
            self.world.begin(program)
        while not all(one.is_done for one in self.creators):
            await asyncio.sleep(0.02)
        for program in self._waiting:
            self.world.begin(program)


def writing(cast: Cast) -> None:
    cast.world.disk.usual = 3.0
    book = cast.stream("writing")
    cast.write(book, 3)
    cast.other("glancer", book, clients.glance(cast.world, book))


def impatience(cast: Cast) -> None:
    cast.world.network.usual = 6.0
    book = cast.stream("impatience")
    work = clients.write(cast.world, book, patience=timedelta(seconds=1))
    for _ in range(3):
        cast.writer(book, work, clients.OF_IMPATIENCE)


def lines(cast: Cast) -> None:
    cast.world.network.usual = 4.0
    book = cast.stream("lines")
    for number in range(4):
        cast.writer(book, clients.post_lines(cast.world, book, is_keyed=number % 2 == 0))


def returning(cast: Cast) -> None:
    cast.world.network.usual = 6.0
    cast.write(cast.stream("returning"), 3, stays_s=2.0)


def transactions(cast: Cast) -> None:
    cast.world.network.usual = 3.0
    cast.world.favoured += ["kill client"] * 8
    cast.world.disk.delay_s = 0.01  # so that others call within a commit
    book = cast.stream("transactions")
    cast.write(book, 2, transactions=0.5)
    cast.operator(book, "scale", "look", pause_s=4.0)


def scaling(cast: Cast) -> None:
    cast.world.network.usual = 6.0
    book = cast.stream("scaling", max_segments=8, segments=4)
    cast.write(book, 2, transactions=0.1, flushes=0.2)
    cast.operator(book, "scale", pause_s=0.8)


def policy(cast: Cast) -> None:
    target = {"events_per_s": 2, "window_ms": 2_000, "cooldown_ms": 2_000, "min_segments": 1}
    book = cast.stream("policy", scaling=target, max_segments=6)
    cast.write(book, 2)


def reading(cast: Cast) -> None:
    cast.world.favoured += ["kill client"] * 12
    book = cast.stream("reading", groups=2, segments=4)
    cast.write(book, 2)
    cast.operator(book, "look", pause_s=0.5)


def truncating(cast: Cast) -> None:
    book = cast.stream("truncating")
    cast.write(book, 2)
    cast.operator(book, "truncate", "truncate", "scale", pause_s=0.7)


def retaining(cast: Cast) -> None:
    book = cast.stream("retaining", retention={"age_ms": 3_000})
    book.keeps_ms, book.truncated_below = 3_000, 0
    cast.write(book, 2)


def sparing(cast: Cast) -> None:
    """What is about groups that are created while retention stores."""
    book = cast.stream("retaining", retention={"age_ms": 3_000})
    book.keeps_ms, book.truncated_below = 3_000, 0
    cast.world.disk.delay_s = 0.01
    maintenance._PERIOD_S = OFTEN_S
    cast.write(book, 2)
    cast.other("newcomer", book, rivals.come_and_go(cast.world, book))


def forcing(cast: Cast) -> None:
    cast.world.disk.delay_s = 0.02  # so that two are under way
    book = cast.stream("forcing", groups=0, retention={"age_ms": 3_000})
    book.keeps_ms, book.truncated_below = 3_000, 0
    cast.write(book, 2)
    for act in ("truncate", "force"):
        cast.operator(book, act, pause_s=1.2, by_the_clock=True)
    cast.other("glancer", book, clients.glance(cast.world, book))


def batches(cast: Cast) -> None:
    book = cast.stream("batches")
    cast.write(book, 1)
    cast.other("job", book, clients.publish(cast.world, book))
    cast.operator(book, "scale", pause_s=4.0)


def sealing(cast: Cast) -> None:
    book = cast.stream("sealing")
    writers = cast.write(book, 2, leaves=True)
    cast.other("sealer", book, clients.seal_at_end(cast.world, book, writers))


def ending(cast: Cast) -> None:
    # Otherwise a job that ends before the writer has ever come ends the stream, as it should.
    book = cast.stream("ending", min_writers=2)
    programs = cast.write(book, 1, leaves=True)
    programs.append(cast.other("job", book, clients.publish(cast.world, book, ends=True)))
    cast.other("sealer", book, clients.seal_at_end(cast.world, book, programs))


def deleting(cast: Cast) -> None:
    kept = cast.stream("kept")
    cast.write(kept, 1)
    book = cast.stream("deleted", groups=0)
    book.is_gone = True
    work = clients.recreate(cast.world, book)
    cast.other("recreator", book, work, clients.OF_DELETION)


def silence(cast: Cast) -> None:
    cast.world.favoured += ["outage"] * 8
    for name, limit in (("mute", "aggregation_timeout_ms"), ("stuck", "hold_limit_ms")):
        book = cast.stream(name, groups=0, **{limit: 2_000})
        cast.write(book, 1)
        cast.write(book, 1, lag_ms=1_000)
        cast.other(name, book, clients.silent(cast.world, book, beats=name == "stuck"))
    # Here nothing is refused that would have the stream read back.
    book = cast.stream("quiet", groups=0, aggregation_timeout_ms=2_000)
    for name, lag_ms in (("ahead", 0), ("behind", 1_000)):
        cast.other(name, book, clients.silent(cast.world, book, lag_ms=lag_ms))


def lying(cast: Cast) -> None:
    book = cast.stream("lying")
    cast.write(book, 2, lies=0.2)
    cast.other("prophet", book, clients.prophesy(cast.world, book))


def reporting(cast: Cast) -> None:
    book = cast.stream("reporting", groups=0, log="external", segments=3)
    book.external = {0: [], 1: [], 2: []}
    for _ in range(3):
        cast.writer(book, clients.report(cast.world, book))


def _change_hands(world: World) -> None:
    world.disk.delay_s, world.disk.slowness = 0.02, 0.2
    world.is_about_leases = True
    world.longer_s = _LONGER_S  # a take-over takes a while


def holding(cast: Cast) -> None:
    """What is about the lease."""
    _change_hands(cast.world)
    book = cast.stream("holding", groups=0)
    cast.write(book, 3, flushes=0.9)
    cast.other("glancer", book, clients.glance(cast.world, book, pause_s=0.03, appends=0.5))


def failing_over(cast: Cast) -> None:
    """What is about a database that goes back; clients have nothing that they could be ahead by."""
    _change_hands(cast.world)
    book = cast.stream("failing-over", groups=0)
    for number in range(2):
        cast.writer(book, clients.post_lines(cast.world, book, is_keyed=number > 0))
    for number in range(2):
        work = clients.glance(cast.world, book, pause_s=0.05, appends=0.4)
        cast.other(f"glancer{number}", book, work)


SUBJECTS = (
    *(writing, impatience, lines, returning, transactions, scaling, policy, reading),
    *(truncating, retaining, forcing, batches, sealing, deleting, silence, lying, reporting),
    *(holding, failing_over, ending, sparing),
)


def prepare(world: World, cast: Cast, course: Course) -> None:
    """Choose what a run is about."""
    # Sparing has the stream of retaining, and is played where it is asked for.
    possible = [
        one
        for one in SUBJECTS
        if course.about == one.__name__ or (course.about is None and one is not sparing)
    ]
    world.choices.of("subject").shuffle(possible)
    chosen = possible[: course.subjects]
    world.loses_changes = world.disk.is_shared and chosen == [failing_over]
    for subject in chosen:
        world.loop.trace("subject", subject.__name__)
        subject(cast)


async def play(world: World, course: Course) -> None:
    """Play a whole run, up to the calm before the judging."""
    loop = world.loop
    await world.start()
    cast = Cast(world)
    prepare(world, cast, course)
    await cast.begin()
    if world.loses_changes:
        world.disk.remember = world.ledger.remember
    for one in (world.network, world.disk):
        one.intensity = one.usual
    await _rage(world, loop.time() + course.faults_s + world.longer_s)
    world.choices.are_faults_over = True
    world.network.intensity = 0.0
    world.disk.calm()
    world.is_calm = True
    loop.trace("calm", "")
    processes: list[Controller | Program] = [*world.controllers, *world.programs]
    for node in [one.node for one in processes]:
        node.resume()
    world.network.heal()


async def end(world: World) -> None:
    """Let the writers end, and the readers read to the end."""
    world.is_writing = False
    ends = world.loop.time() + _READ_OUT_S
    while world.loop.time() < ends and not await _is_read_out(world):
        await asyncio.sleep(0.1)
    world.is_reading = False
    while world.loop.time() < ends and not all(one.is_done for one in world.programs):
        await asyncio.sleep(0.1)
    for one in world.programs:
        if not one.is_done:
            world.ledger.troubles.append(f"does not end: {one.name}")


async def _is_read_out(world: World) -> bool:
    """Whether nobody writes any more, and readers got all that is stored, heard of or not."""
    readers = [one for one in world.programs if one.name.startswith(("reader", "watcher"))]
    if not all(one.is_done for one in world.programs if one not in readers):
        return False
    groups = world.ledger.groups.values()
    if not all(group.stream.acknowledged <= group.got.keys() for group in groups):
        return False
    for group in groups:
        if not (await look(world, group.stream)).values <= group.got.keys():
            return False
    return True


async def _rage(world: World, until_s: float) -> None:
    """Let great faults happen, one after another."""
    loop, choices = world.loop, world.choices
    while True:
        await asyncio.sleep(choices.of("rage").expovariate(1.2))
        if loop.time() >= until_s:
            return
        if world.is_about_leases and not any(one.holds for one in world.controllers):
            await asyncio.sleep(choices.between("take-overs", 0, 1))
        kinds = _RAGES + _RAGES_OF_SEVERAL * world.disk.is_shared + world.favoured
        kind = choices.one("rages", _RAGES_OF_LEASES if world.is_about_leases else kinds)
        if choices.strikes(kind, 1.0):
            _FAULTS[kind](world)


def _whom(world: World) -> Controller:
    """Choose a controller: nearly always the holder, if there is one."""
    chosen = world.choices.one("whom", world.controllers)
    if world.choices.of("whom").random() < 0.8:
        return next((one for one in world.controllers if one.holds), chosen)
    return chosen


def _kill(world: World) -> None:
    _whom(world).kill()


def _fall(world: World) -> None:
    """Kill all controllers; those that start again at once do so together."""
    for controller in world.controllers:
        controller.kill()


def _end(world: World) -> None:
    _whom(world).end()


def _pause(world: World, *, suspends: bool = False) -> None:
    controller = _whom(world)
    if controller.is_up:
        longest_s = 6.0 if world.is_about_leases else 3.5
        length_s = world.choices.between("length of pauses", 0.05, longest_s)
        controller.node.pause_for(length_s, suspends=suspends)


def _kill_client(world: World) -> None:
    world.choices.one("which client to kill", world.programs).kill()


def _pause_client(world: World) -> None:
    program = world.choices.one("which client to pause", world.programs)
    if not program.is_done and program.process:
        program.node.pause_for(world.choices.between("length of pauses", 0.05, 3.5))


def _cut_off(world: World) -> None:
    """Cut a controller off from a client."""
    pair = _whom(world).name, world.choices.one("from whom", world.programs).name
    world.network.cut_off.add(pair)
    length_s = world.choices.between("length of cuts", 0.2, 4)
    world.loop.call_later(length_s, lambda: world.network.cut_off.discard(pair))


def _stick(world: World) -> None:
    """Let the database not hear of what a controller asks, or not answer, or be stuck with it."""
    choices, name = world.choices, _whom(world).name
    until_s = world.loop.time() + choices.between("length of sticking", 0.4, 2.6)
    part = choices.of("where it sticks").randrange(3)
    world.disk.stuck[name] = Stuck(until_s, part, choices.of("what sticks").random() < 0.5)


def _hinder(world: World) -> None:
    """Let a controller not renew its lease, and change the database as before."""
    name = _whom(world).name
    # Until a standby takes over, or until that is long over.
    shortest_s, longest_s = world.choices.one("hindering", [(0.7, 1.5), (1.7, 3.2), (1.7, 3.2)])
    length_s = world.choices.between("length of hindering", shortest_s, longest_s)
    until_s = world.loop.time() + length_s
    world.disk.stuck[name] = Stuck(until_s, 0, is_lease_alone=True)


def _crash(world: World) -> None:
    """Let the database start again without the latest renewals, or another one take its place.

    The holder may not hear of the other one for as long as its lease.
    """
    chance = world.choices.of("crashes")
    takes_back, is_promoted = chance.randrange(6), chance.random() < 0.5
    holder = next((one for one in world.controllers if one.holds), None)
    world.disk.crash(
        takes_back=takes_back, is_promoted=is_promoted, loses_hands=chance.randrange(3)
    )
    if is_promoted and holder is not None and chance.random() < 0.5:
        until_s = world.loop.time() + chance.uniform(0.5, 2) * LEASE_MS / 1_000
        world.disk.stuck[holder.name] = Stuck(until_s, 0, is_lease_alone=False)


def _refuse(world: World) -> None:
    """Let the database refuse all changes for long."""
    world.disk.refuse_for(world.choices.between("length of outages", 1.5, 4))


def _roughen(world: World) -> None:
    """Make small faults many times as frequent for a moment."""
    both: list[Network | Disk] = [world.network, world.disk]
    rough = world.choices.one("what is rough", both)
    rough.intensity = world.choices.between("how rough", 4, 12)
    length_s = world.choices.between("length of roughness", 0.3, 2)

    def smooth() -> None:
        rough.intensity = 0.0 if world.choices.are_faults_over else rough.usual

    world.loop.call_later(length_s, smooth)


_FAULTS: dict[str, Callable[[World], None]] = {
    "kill": _kill,
    "fall": _fall,
    "end": _end,
    "pause": _pause,
    "suspend": partial(_pause, suspends=True),
    "kill client": _kill_client,
    "pause client": _pause_client,
    "cut off": _cut_off,
    "rough": _roughen,
    "stick": _stick,
    "hinder": _hinder,
    "crash": _crash,
    "outage": _refuse,
}
_RAGES = [
    *("kill", "kill", "end", "pause", "pause", "suspend", "outage"),
    *("kill client", "kill client", "kill client", "pause client", "cut off", "rough", "rough"),
]
_RAGES_OF_SEVERAL = ["pause", "stick", "stick", "stick", "fall", "crash"]
_RAGES_OF_LEASES = [
    *("kill", "fall", "pause", "pause", "pause", "suspend", "suspend", "rough"),
    *("stick", "stick", "stick", *["end"] * 3, *["crash"] * 6, *["hinder"] * 8),
]
