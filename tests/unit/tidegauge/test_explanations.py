"""What an operator reads at three in the morning, word by word."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import pytest

from tests.property.memory import Memory
from tidegauge import Aggregator, Now, StreamSettings, Topology
from tidegauge.explain.explanation import Explanation
from tidegauge.explain.situation import OddEvent

NOON = 1_704_110_400_000
MINUTE = 60_000
HOUR = 60 * MINUTE
FLAT = Topology.of_partitions(2)


class Beat(NamedTuple):
    """Some writers report every 5 s for so long: the time, and `slow` what it noted before."""

    writers: tuple[str, ...]
    ms: int


Act = int | str | tuple[str, int] | Beat
"""Time that passes; a writer that registers (+), leaves (-) or expires (!); a time from noon on."""


class Night:
    """A stream whose clocks are the test's; it begins at noon."""

    def __init__(self, *, topology: Topology = FLAT, **settings: int | None) -> None:
        wanted = StreamSettings(**settings)  # type: ignore[arg-type]
        self.core = Aggregator("shop/orders", wanted, topology)
        self.memory = Memory()
        self.passed_ms = 0

    @property
    def now(self) -> Now:
        return Now(NOON + self.passed_ms, self.passed_ms)

    def live(self, *acts: Act) -> Self:
        """Do one act after another, each with a pass behind it."""
        for act in acts:
            match act:
                case Beat(writers, ms):
                    for _ in range(ms // 5_000):
                        self.passed_ms += 5_000
                        for writer in writers:
                            self.note(writer, -HOUR if writer == "slow" else self.passed_ms)
                case (writer, time):
                    self.note(writer, time)
                case int():
                    self.passed_ms += act
                case str():
                    names = {"+": "register", "-": "leave", "!": "expire"}
                    getattr(self.core, names[act[0]])(act[1:], now=self.now)
            self.core.run_pass(self.now)
        return self

    def note(self, writer: str, time: int, offset: int = 1, **more: Any) -> None:
        position = {0: offset} if offset else {}
        self.core.note_time(writer, NOON + time, position, now=self.now, **more)
        self.core.run_pass(self.now)

    def store(self) -> None:
        self.memory.apply(self.core.take_changes())

    def restart(self) -> Self:
        """Go on with what is stored."""
        self.store()
        stored = self.memory.stored()
        self.core = Aggregator.restore(
            "shop/orders", StreamSettings(), self.core.topology, stored
        )
        return self

    def explain(self) -> Explanation:
        return self.core.inspect(self.now).explain()

    def says(self) -> str:
        return self.explain().in_full


class Scene(NamedTuple):
    """What happens, and what is said then, perhaps with "…" at an end; fields that are shown."""

    acts: list[Act]
    said: str = "…"
    settings: dict[str, int | None] = {}  # noqa: RUF012 (nobody changes it)
    shown: Mapping[str, Any] = {}
    holder: Mapping[str, Any] = {}
    returning: Mapping[str, Any] = {}


HELD: list[Act] = [("slow", -HOUR), ("fast", 0)]
HELD_BY_MANY: list[Act] = [("first", -HOUR), ("fast", 0)]
HELD_BY_MANY += [(f"w{number:02}", -HOUR) for number in range(30)]
NEVER: dict[str, int | None] = {"aggregation_timeout_ms": None, "hold_limit_ms": None}

SCENES = {
    "no writers": Scene(
        [],
        "There is no mark yet: the stream has no writer; register a writer, or note a time.",
        shown={"reason": "no_writers"},
    ),
    "many have registered only": Scene(
        [("api-1", 0), *(f"+api-{number}" for number in range(2, 7))],
        "… have reported, and 'api-2', 'api-3', 'api-4' and 2 more registered without …",
        {"min_writers": 3},
    ),
    "one silent writer": Scene(
        [*HELD, 13_000],
        "The watermark has stood at 2024-01-01T11:00:00.000Z for 13s: writer 'slow' (1h of "
        "event time behind, silent for 13s) holds it while 'fast' waits; it is dropped in 47s "
        "if others keep reporting (13s of the 1m of silence allowed have passed); have it note "
        "a later time or leave, or expire it (its events below the watermark are then late): "
        "tidegauge expire shop/orders slow",
        shown={"stood_ms": 13_000, "next_expiry_ms": None, "waiting": ["fast"]},
        holder={"stand_by": "noted", "grace": True, "expires_in_ms": None},
    ),
    "a clock that runs out without another report": Scene(
        [*HELD, Beat(("fast",), 40_000)],
        "… 'fast' waits; it is dropped in 20s (40s of the 1m of silence allowed have passed);…",
        shown={"next_expiry_ms": 20_000},
        holder={"expires_in_ms": 20_000},
    ),
    "one that beats is judged by its progress, also between two beats": Scene(
        [*HELD, Beat(("slow", "fast"), MINUTE), Beat(("fast",), 15_000)],
        "… dropped in 8m 45s if others keep progressing (it has made no progress for 1m 15s …",
        holder={"silent_for_ms": 15_000, "clock": "standing_still", "remaining_ms": 525_000},
    ),
    "one that beats where nothing limits that": Scene(
        [*HELD, Beat(("slow", "fast"), MINUTE), Beat(("fast",), 15_000)],
        "… 'fast' waits; it reports, and holds without limit (hold_limit_ms is null);…",
        {"hold_limit_ms": None},
    ),
    "all silent for a night": Scene(
        [*HELD, 8 * HOUR],
        "The watermark has stood at 2024-01-01T11:00:00.000Z for 8h: no writer has reported "
        "for 8h, so no writer expires; writer 'slow' (1h of event time behind, silent for 8h) is "
        "last; if there should be events, look at the producers.",
        holder={"remaining_ms": None},
    ),
    "a dead writer that one that left waits for, while all others are silent": Scene(
        [("dead", -HOUR), ("fast", 0), ("live", 0), "-fast", 8 * HOUR],
        "…; no writer has reported for 8h: while no other writer reports, no writer expires;…",
        shown={"held_ms": 8 * HOUR, "silent_ms": None},
    ),
    "silent once the last clock has run out": Scene(
        [*HELD, Beat(("slow", "fast"), 9 * MINUTE), MINUTE],
        shown={
            "silent_ms": MINUTE,
            "states": {"joining": 0, "active": 1, "behind": 0, "expired": 1, "left": 0},
        },
    ),
    "a dead writer that all others have left": Scene(
        [("dead", -HOUR), ("fast", 0), "-fast", 13_000],
        "The watermark has stood at 2024-01-01T11:00:00.000Z for 13s: writer 'dead' (1h of "
        "event time behind, silent for 13s) holds it while 'fast' waits; all others have left: "
        "while no other writer reports, no writer expires, and it holds until you seal the "
        "stream or expire it; have it note a later time or leave, seal the stream, or expire it "
        "(its events below the watermark are then late): tidegauge expire shop/orders dead",
    ),
    "a writer that nobody limits": Scene(
        [*HELD, 11_000],
        "… it is never dropped (aggregation_timeout_ms and hold_limit_ms are null);…",
        NEVER,
        holder=dict.fromkeys(("silent_for_ms", "standing_for_ms", "clock")),
    ),
    "an expired writer that catches up too slowly": Scene(
        [*HELD, Beat(("fast",), HOUR), ("slow", 0)],
        "Nothing to do: the watermark stands at 2024-01-01T13:00:00.000Z: no writer is ahead, "
        "'slow' expired and no longer holds it; it advances once 'fast' notes a later time; 'slow' "
        "is returning, 1h behind: at its pace the others would wait 1h; it is admitted once that "
        "is at most 1m, or when it registers.",
        returning={"state": "expired", "grace": True, "catch_up_ms": HOUR},
    ),
    "an expired writer without grace": Scene(
        [*HELD, Beat(("fast",), HOUR), "+slow", "!slow", "+slow"],
        "…; 'slow' is returning, no time noted yet, without grace until it notes a time above "
        "2024-01-01T13:00:00.000Z.",
        returning={"state": "expired", "grace": False, "catch_up_ms": None},
    ),
    "a clock that runs out inside the interval of marks": Scene(
        [*HELD, Beat(("fast",), 15_000)],
        "…; it is dropped within 45s, when mark_interval_ms has passed (15s …",
        {"aggregation_timeout_ms": 20_000, "mark_interval_ms": MINUTE},
    ),
    "who has noted nothing is named first where nobody is ever dropped": Scene(
        [*HELD_BY_MANY, "+new", 11_000],
        "… writers 'new' (registered 11s ago, no time noted yet, starts at "
        "2024-01-01T11:00:00.000Z), 'first', 'w00' and 29 more hold it … "
        "have it note a time or leave, or expire it (its events below the watermark are then "
        "late): tidegauge expire shop/orders new",
        NEVER,
    ),
    "who has noted nothing is named after who is dropped first": Scene(
        [*HELD_BY_MANY, 9_000, "+new", 2_000],
        "… 'first' (1h of event time behind, silent for 11s), 'new' (registered 2s ago, no time "
        "noted yet, starts at 2024-01-01T11:00:00.000Z; 2s of the 1m of silence "
        "allowed have passed), 'w00' and 29 more hold it…",
    ),
    "somebody joins before the first mark": Scene(
        ["+new"],
        "There is no mark yet: writer 'new' (no time noted yet) holds back the first mark "
        "while no writer waits; it is dropped after 1m of silence or 10m without progress, "
        "once another writer waits; have it note a time.",
    ),
    "all have left or expired": Scene(
        [("a", 0), ("b", 0), ("c", 0), "-a", "-b", "!c"],
        "The watermark stands at 2024-01-01T12:00:00.000Z: no writer is live (2 left, 1 "
        "expired: 'c'); start a writer.",
    ),
    "a quiet night says who reported last": Scene(
        [("a", 0), ("b", 0), 2 * HOUR],
        "The watermark has stood at 2024-01-01T12:00:00.000Z for 2h: no writer is ahead, 'b' "
        "reported last, 2h ago; it advances once all 2 live writers note a later time.",
    ),
    "another one registers in a quiet night": Scene(
        [("a", 0), ("b", 0), 2 * HOUR, "!b", "+new"],
        "… no writer is ahead, 'b' reported last, 2h ago, 'new' registered without reporting, "
        "'b' expired and no longer holds it; it advances once all 2 live writers note a later time.",
    ),
    "seconds are in the one writer that sends them": Scene(
        [("seconds", NOON // 1_000 - NOON), ("right", 0)],
        shown={
            "hint": "Writer 'seconds' noted 1704110400, which lies in early 1970: are these "
            "seconds? Times are milliseconds."
        },
    ),
    "logical time is no mistake": Scene(
        [("a", 5 - NOON), ("b", 48 * HOUR)],
        "Nothing to do: the watermark stands at 5: writer … is last.",
        {"max_future_skew_ms": None},
        shown={"hint": None},
    ),
    "how far a returning writer's logical time lies behind has no unit": Scene(
        [("newbie", 7 - NOON), ("other", 99 - NOON), "!newbie", ("newbie", 8 - NOON)],
        "… 'newbie' is returning, 91 behind: …",
        {"max_future_skew_ms": None},
    ),
    "the writer whose clock is ahead is doubted first": Scene(
        [("good", 0), ("skewed", 5 * HOUR)],
        "Writer 'skewed' noted a time 5h ahead of this server's clock: is its clock right? "
        "The watermark stands at 2024-01-01T12:00:00.000Z: writer 'good' (5h of event time "
        "behind) is last; first check 'skewed', whose times are in the future: if its clock is "
        "wrong, stop it and expire it: tidegauge expire shop/orders skewed",
        {"max_future_skew_ms": 24 * HOUR},
    ),
    "the watermark is ahead of the clock": Scene(
        [("good", 0), ("skewed", 5 * HOUR), "!good"],
        settings={"max_future_skew_ms": 24 * HOUR},
        shown={
            "hint": "The watermark is 5h ahead of this server's clock: is a writer's clock "
            "wrong? It cannot go back, so older events are late until the clock has passed it."
        },
    ),
    "no lead within which clocks agree is pointed out": Scene(
        [("a", -HOUR), ("b", -HOUR), ("c", -HOUR + MINUTE)],
        settings={"max_future_skew_ms": MINUTE},
        shown={"hint": None},
    ),
}


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES)
def test_what_is_said(scene: Scene) -> None:
    settings: Any = scene.settings
    night = Night(**settings).live(*scene.acts)
    explanation = night.explain()
    assert re.fullmatch(".*".join(map(re.escape, scene.said.split("…"))), explanation.in_full)
    for status, fields in [
        (explanation, scene.shown),
        ([*explanation.holders, None][0], scene.holder),
        ([*explanation.returning, None][0], scene.returning),
    ]:
        assert {name: getattr(status, name) for name in fields} == fields


@pytest.mark.parametrize("restarts", [False, True])
def test_of_a_silence_five_minutes_count_as_held(*, restarts: bool) -> None:
    night = Night().live(*HELD, 8 * HOUR)
    if restarts:
        night.restart().live(1_000)
        assert night.explain().silent_ms == 8 * HOUR + 1_000
    night.live(("fast", 8 * HOUR), 20_000)
    assert (night.explain().held_ms, night.explain().silent_ms) == (5 * MINUTE + 20_000, None)


def test_how_many_others_run_out_with_the_one_that_is_named_is_said() -> None:
    night = Night().live(("w00", -2 * HOUR), 1, ("w00", -2 * HOUR + 1))
    night.live(*((f"w{number:02}", number - HOUR) for number in range(20)))
    night.live(("fast", 0), 20_000, ("fast", 1))
    assert (
        "writer 'w00' (1h of event time behind, silent for 20s) holds it while 'w01', 'w02', "
        "'w03' and 17 more wait; it is dropped in 40s if others keep reporting ("
        "20s of the 1m of silence allowed have passed; 19 more expire with it);"
    ) in night.says()


def test_those_that_expired_are_named_the_latest_first_also_after_a_restart() -> None:
    night = Night().live(*((writer, 0) for writer in "dbaec"))
    night.live(1_000, "!c", 1_000, "!a", 1_000, "!e", 1_000, "!b")
    named = "'b', 'e', 'a' and 1 more expired and no longer hold it;"
    assert named in night.says()
    assert named in night.restart().says()
    assert "'a' and 'c' expired and no longer hold it;" in night.live(("e", 0), "-b").says()
    assert "(3 left, 2 expired: 'a' and 'c')" in night.live("-d", "-e").says()


def test_who_has_not_ended_is_named_where_others_have() -> None:
    night = Night().live(("a", 0), ("b", 0), ("c", 0), "-b")
    for writer in "ac":
        night.core.leave(writer, now=night.now, ended=True)
    assert night.says() == (
        "The watermark stands at 2024-01-01T12:00:00.000Z: no writer is live (3 left, 0 expired); the "
        "stream is sealed once 'b' has ended, as 2 others have; start 'b', or end it if it will "
        "not run again: tidegauge leave shop/orders b --ended"
    )


def test_sealed() -> None:
    night = Night().live(("a", 0))
    night.core.seal({0: 1, 1: 0}, night.now)
    assert night.says() == (
        "The stream is sealed: its watermark is the end of time, and nothing follows."
    )
    assert night.explain().cure is None
    assert night.explain().holders[0].behind_ms is None


def test_a_pass_is_due() -> None:
    night = Night(mark_interval_ms=MINUTE).live(("a", 0))
    night.core.note_time("a", NOON + 1, {}, now=night.now)
    assert night.says() == (
        "Nothing to do: the watermark stands at 2024-01-01T12:00:00.000Z: all writers have "
        "noted a later time, and the next pass is due within 1m."
    )


def test_a_writer_that_is_far_ahead_of_all_others_is_pointed_out() -> None:
    first, second = ("gateway-1", -2 * HOUR), ("gateway-2", -2 * HOUR + MINUTE)
    night = Night().live(first, second, ("gateway-3", -2 * HOUR + 7 * MINUTE))
    assert night.explain().hint is None  # six minutes are a tenth of max_future_skew_ms
    doubt = "Writer 'gateway-3' is 40m ahead of all others: is its clock right?"
    assert night.live(("gateway-3", -2 * HOUR + 41 * MINUTE)).explain().hint == doubt
    assert night.live(("gateway-4", -2 * HOUR + 36 * MINUTE)).explain().hint is None
    assert night.live("-gateway-4").explain().hint == doubt
    assert night.live(("gateway-3", 30 * MINUTE)).explain().hint == (
        "Writer 'gateway-3' noted a time 30m ahead of this server's clock, and is 2h 29m ahead of "
        "all others: is its clock right?"
    )


def test_an_external_log_without_positions() -> None:
    night = Night()
    night.note("a", 0, 0)
    assert night.explain().hint == (
        "No report has named an offset, so the marks cover no event of the external log: "
        "send the next offset of each partition as the position."
    )
    assert night.live(("a", 1)).explain().hint is None


def test_a_hot_key_is_named_by_its_segment() -> None:
    night = Night().live(("a", 0))
    assert night.core.inspect(night.now).explain(hot=[7]).hint == (
        "Hot key in segment 7: a split left the load in one part, and is not repeated for now; "
        "if the events of that key need no common order, write them under several keys."
    )


SECONDS = "event time 1704110400 lies in early 1970: are these seconds? Times are milliseconds"


@pytest.mark.parametrize(
    ("event", "hint"),
    [
        (
            OddEvent(NOON // 1_000, "w", NOON - 10 * MINUTE),
            f"Writer 'w' appended an odd time: {SECONDS}.",
        ),
        (
            OddEvent(NOON + 49 * HOUR, None, NOON),
            (
                "Somebody appended an odd time: event time 1704286800000 is 2d 1h ahead of this "
                "server's clock: is that right? If you need such times, raise max_future_skew_ms."
            ),
        ),
        (OddEvent(NOON + HOUR, "w", NOON), None),
        (OddEvent(NOON // 1_000, "w", NOON - 10 * MINUTE - 1), None),
    ],
)
def test_an_event_with_an_odd_time_is_named_for_ten_minutes(
    event: OddEvent, hint: str | None
) -> None:
    night = Night().live(("a", 0))
    assert night.core.inspect(night.now).explain(odd_event=event).hint == hint


def test_after_a_restart_it_is_known_since_when_writers_are_silent() -> None:
    night = Night()
    for name, passed_ms in (("early", 0), ("late", MINUTE), ("late", HOUR)):
        night.live(passed_ms, (name, night.passed_ms + passed_ms)).store()
    night.live(MINUTE).restart()
    silent = {one.writer: one.silent_ms for one in night.core.inspect(night.now).statuses()}
    assert silent == {"early": HOUR + 2 * MINUTE, "late": MINUTE}
