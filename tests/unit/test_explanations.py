"""What an operator reads at three in the morning, word by word."""

import pytest

from tests.property.memory import Memory
from tidegauge import Aggregator, Now, StreamSettings, Topology
from tidegauge.explain.explanation import Explanation
from tidegauge.explain.situation import OddEvent
from tidegauge.topology import KeyRange, Segment

NOON = 1_704_110_400_000
MINUTE = 60_000
HOUR = 60 * MINUTE


class Night:
    """A stream whose clocks are the test's; it begins at noon."""

    def __init__(self, topology: Topology | None = None, **settings: int | None) -> None:
        wanted = StreamSettings(**settings)  # type: ignore[arg-type]
        self.core = Aggregator("shop/orders", wanted, topology or Topology.of_partitions(2))
        self.memory = Memory()
        self.passed_ms = 0

    @property
    def now(self) -> Now:
        return Now(NOON + self.passed_ms, self.passed_ms)

    def note(self, writer: str, time: int, offset: int = 1) -> None:
        self.core.note_time(writer, time, {0: offset} if offset else {}, now=self.now)
        self.core.run_pass(self.now)

    def register(self, writer: str) -> None:
        self.core.register(writer, now=self.now)
        self.core.run_pass(self.now)

    def leave(self, writer: str) -> None:
        self.core.leave(writer, now=self.now)
        self.core.run_pass(self.now)

    def expire(self, writer: str) -> None:
        self.core.expire(writer, now=self.now)
        self.core.run_pass(self.now)

    def be_held_by_many(self) -> None:
        """Let 'first' and 30 others hold 'fast' up by an hour of event time."""
        self.note("first", NOON - HOUR)
        self.note("fast", NOON)
        for number in range(30):
            self.note(f"w{number:02}", NOON - HOUR, 0)

    def be_held_by_beating(self, *beating: str, for_ms: int) -> None:
        """Let 'slow' hold 'fast' up, while others report every 5 s."""
        self.note("slow", NOON - HOUR)
        self.note("fast", NOON)
        for _ in range(for_ms // 5_000):
            self.passed_ms += 5_000
            for one in beating:
                self.note(one, NOON - HOUR if one == "slow" else NOON + self.passed_ms)

    def later(self, passed_ms: int) -> None:
        self.passed_ms += passed_ms
        self.core.run_pass(self.now)

    def store(self) -> None:
        self.memory.apply(self.core.take_changes())

    def restart(self) -> None:
        """Go on with what is stored."""
        stored = self.memory.stored()
        self.core = Aggregator.restore(
            "shop/orders", StreamSettings(), self.core.topology, stored
        )

    def explain(self) -> Explanation:
        return self.core.inspect(self.now).explain()

    def says(self) -> str:
        return self.explain().in_full


def test_no_writers() -> None:
    night = Night()
    assert night.says() == (
        "There is no mark yet: the stream has no writer; register a writer, or note a time."
    )
    assert night.explain().reason == "no_writers"


def test_too_few_writers() -> None:
    night = Night(min_writers=3)
    night.note("api-1", NOON)
    night.register("api-2")
    assert night.says() == (
        "There is no mark yet: 1 of min_writers=3 writers have reported, and 'api-2' registered "
        "without reporting; start the other writers, or require fewer: tidegauge configure "
        "shop/orders --min-writers 1"
    )
    for number in range(3, 7):
        night.register(f"api-{number}")
    named = "have reported, and 'api-2', 'api-3', 'api-4' and 2 more registered without"
    assert named in night.says()


def test_one_silent_writer() -> None:
    night = Night()
    night.note("slow", NOON - HOUR)
    night.note("fast", NOON)
    night.later(13_000)
    assert night.says() == (
        "The watermark has stood at 2024-01-01T11:00:00.000Z for 13s: writer 'slow' (1h of "
        "event time behind, silent for 13s) holds it while 'fast' waits; it is dropped in 47s "
        "if others keep reporting (it has been silent for 13s of the 1m allowed); have it note "
        "a later time or leave, or expire it (its events below the watermark are then late): "
        "tidegauge expire shop/orders slow"
    )
    explanation = night.explain()
    (holder,) = explanation.holders
    assert (holder.behind_ms, holder.silent_ms) == (HOUR, 13_000)
    assert (holder.stand, holder.stand_by, holder.grace) == (NOON - HOUR, "noted", True)
    assert (holder.silent_for_ms, holder.standing_for_ms) == (13_000, 13_000)
    assert (holder.clock, holder.expires_in_ms) == ("silence", None)
    assert holder.remaining_ms == 47_000
    assert (explanation.stood_ms, explanation.next_expiry_ms) == (13_000, None)
    assert explanation.waiting == ["fast"]


def test_a_clock_that_runs_out_without_another_report_says_when() -> None:
    night = Night()
    night.be_held_by_beating("fast", for_ms=40_000)
    assert (
        "'fast' waits; it is dropped in 20s (it has been silent for 40s of the 1m allowed);"
        in night.says()
    )
    (holder,) = night.explain().holders
    assert (holder.expires_in_ms, night.explain().next_expiry_ms) == (20_000, 20_000)


def test_a_writer_that_speaks_and_does_not_progress() -> None:
    night = Night()
    night.be_held_by_beating("slow", "fast", for_ms=9 * MINUTE)
    assert night.says().startswith(
        "The watermark has stood at 2024-01-01T11:00:00.000Z for 9m: writer 'slow' (1h 9m of "
        "event time behind) holds it while 'fast' waits; it is dropped in 1m (it has made no "
        "progress for 9m of the 10m allowed);"
    )
    (holder,) = night.explain().holders
    assert (holder.silent_for_ms, holder.standing_for_ms) == (0, 9 * MINUTE)
    assert (holder.clock, holder.expires_in_ms) == ("standing_still", MINUTE)


def test_while_all_writers_are_silent_nobody_is_to_expire_and_nothing_is_held() -> None:
    night = Night()
    night.note("slow", NOON - HOUR)
    night.note("fast", NOON)
    night.later(29_999)
    assert (night.explain().held_ms, night.explain().silent_ms) == (29_999, None)
    night.later(1)
    assert (night.explain().held_ms, night.explain().silent_ms) == (None, 30_000)
    night.later(8 * HOUR - 30_000)
    assert night.says() == (
        "The watermark has stood at 2024-01-01T11:00:00.000Z for 8h: no writer has reported "
        "for 8h, so no writer expires; last is writer 'slow' (1h of event time behind, silent "
        "for 8h); if there should be events, look at the producers."
    )
    (holder,) = night.explain().holders
    assert holder.remaining_ms is None


@pytest.mark.parametrize("restarts", [False, True])
def test_a_wait_begins_anew_where_a_silence_ends(*, restarts: bool) -> None:
    night = Night()
    night.note("slow", NOON - HOUR)
    night.note("fast", NOON)
    night.later(8 * HOUR)
    night.store()
    if restarts:
        night.restart()
        night.later(1_000)
        assert night.explain().silent_ms == 8 * HOUR + 1_000
    night.note("fast", NOON + 8 * HOUR)
    night.later(20_000)
    assert (night.explain().held_ms, night.explain().silent_ms) == (20_000, None)


def test_a_wait_goes_on_after_a_restart() -> None:
    night = Night()
    night.be_held_by_beating("slow", "fast", for_ms=5 * MINUTE)
    night.store()
    night.restart()
    night.later(1_000)
    assert night.explain().held_ms == 5 * MINUTE + 1_000


def test_a_dead_writer_that_one_that_left_waits_for_holds_while_all_others_are_silent() -> None:
    night = Night()
    night.note("dead", NOON - HOUR)
    night.note("fast", NOON)
    night.note("live", NOON)
    night.leave("fast")
    night.later(8 * HOUR)
    assert (night.explain().held_ms, night.explain().silent_ms) == (8 * HOUR, None)
    why = "; no writer has reported for 8h: while no other writer reports, no writer expires;"
    assert why in night.says()


def test_nobody_is_silent_before_the_last_clock_runs_out_that_can() -> None:
    night = Night()
    night.be_held_by_beating("slow", "fast", for_ms=9 * MINUTE)
    night.later(40_000)
    assert night.explain().silent_ms is None
    assert "; it is dropped in 20s (it has made no progress for 9m 40s" in night.says()
    night.later(20_000)
    assert (night.core.state("slow"), night.explain().silent_ms) == ("expired", MINUTE)


def test_where_nobody_is_ever_dropped_silence_is_no_hold_either() -> None:
    night = Night(aggregation_timeout_ms=None, hold_limit_ms=None)
    night.note("slow", NOON - HOUR)
    night.note("fast", NOON)
    night.later(30_000)
    assert (night.explain().held_ms, night.explain().silent_ms) == (None, 30_000)


def test_a_quiet_stream_is_silent_and_one_without_live_writers_is_not() -> None:
    night = Night()
    night.note("a", NOON)
    night.later(HOUR)
    assert night.explain().silent_ms == HOUR
    night.leave("a")
    assert night.explain().silent_ms is None


def test_when_nobody_progresses_the_other_clock_stands_as_well() -> None:
    night = Night()
    night.be_held_by_beating("slow", for_ms=8 * MINUTE)
    assert (
        "no writer has progressed for 8m: while no other writer progresses, no writer expires;"
    ) in night.says()


def test_a_dead_writer_that_all_others_have_left_holds_until_somebody_acts() -> None:
    night = Night()
    night.note("dead", NOON - HOUR)
    night.note("fast", NOON)
    night.leave("fast")
    night.later(13_000)
    assert night.says() == (
        "The watermark has stood at 2024-01-01T11:00:00.000Z for 13s: writer 'dead' (1h of "
        "event time behind, silent for 13s) holds it while 'fast' waits; all others have left: "
        "while no other writer reports, no writer expires, and it holds until you seal the "
        "stream or expire it; have it note a later time or leave, seal the stream, or expire it "
        "(its events below the watermark are then late): tidegauge expire shop/orders dead"
    )


def test_a_writer_that_nobody_limits_is_waited_for_for_ever() -> None:
    night = Night(aggregation_timeout_ms=None, hold_limit_ms=None)
    night.note("slow", NOON - HOUR)
    night.note("fast", NOON)
    night.later(11_000)
    never = "it is never dropped (aggregation_timeout_ms and hold_limit_ms are null);"
    assert never in night.says()
    (holder,) = night.explain().holders
    assert (holder.silent_for_ms, holder.standing_for_ms, holder.clock) == (None, None, None)


def test_a_restarted_writer_stands_where_it_stood() -> None:
    night = Night()
    night.note("slow", NOON - HOUR)
    night.note("fast", NOON)
    night.register("slow")
    night.later(11_000)
    assert (
        "'slow' (registered 11s ago, no time noted yet, stood before at "
        "2024-01-01T11:00:00.000Z) holds it" in night.says()
    )


def test_a_writer_that_catches_up_too_slowly_is_on_its_way_back() -> None:
    night = Night()
    night.be_held_by_beating("fast", for_ms=HOUR)
    assert night.explain().returning == []
    night.note("slow", NOON)
    assert night.says() == (
        "Nothing to do: the watermark stands at 2024-01-01T13:00:00.000Z: no writer is ahead, "
        "'slow' expired and no longer holds it; it rises once 'fast' notes a later time; 'slow' is returning, "
        "1h behind: at its pace the others would wait 1h, and it is admitted at 1m or when it "
        "registers."
    )
    (slow,) = night.explain().returning
    assert (slow.state, slow.grace, slow.catch_up_ms) == ("expired", True, HOUR)
    night.later(10_000)
    night.note("slow", NOON + 59 * MINUTE)
    assert night.core.state("slow") == "active"
    assert night.explain().returning_count == 0


def test_a_writer_without_grace_has_to_note_a_later_time_first() -> None:
    night = Night()
    night.be_held_by_beating("fast", for_ms=HOUR)
    night.register("slow")
    night.expire("slow")
    night.register("slow")
    assert night.says().endswith(
        "; 'slow' is returning, no time noted yet, without grace until it notes a time above "
        "2024-01-01T13:00:00.000Z."
    )
    (slow,) = night.explain().returning
    assert (slow.state, slow.grace, slow.catch_up_ms) == ("expired", False, None)
    night.later(MINUTE)
    night.note("fast", NOON + HOUR + MINUTE)
    night.core.note_time(
        "slow", NOON + HOUR + 1, {}, now=night.now, incarnation=slow.incarnation
    )
    night.later(0)
    assert night.says().endswith(
        "; 'slow' is returning, 59s behind: its pace is not known yet, and it is admitted at "
        "1m or when it registers."
    )


def test_a_clock_that_runs_out_inside_the_interval_of_marks_waits_for_its_end() -> None:
    night = Night(aggregation_timeout_ms=20_000, mark_interval_ms=MINUTE)
    night.be_held_by_beating("fast", for_ms=15_000)
    assert "; it is dropped within 45s, when mark_interval_ms is over (it " in night.says()
    night.passed_ms += MINUTE
    assert "; it is dropped in 0ms (it has been silent for 25s of the 20s" in night.says()


def test_many_writers_hold_and_the_one_that_is_dropped_first_is_named_first() -> None:
    night = Night()
    night.note("first", NOON - HOUR)
    night.note("fast", NOON)
    night.later(5_000)
    for number in range(20):
        night.note(f"w{number:02}", NOON - HOUR, 0)
    night.later(6_000)
    assert night.says() == (
        "The watermark has stood at 2024-01-01T11:00:00.000Z for 11s: writers 'first' (1h of "
        "event time behind, silent for 11s), 'w00', 'w01' and 18 more hold it while 'fast' "
        "waits; the first is dropped in 49s if others keep reporting (it has been silent for "
        "11s of the 1m allowed); have it note a later time or leave, or expire it (its events "
        "below the watermark are then late): tidegauge expire shop/orders first"
    )
    explanation = night.explain()
    assert (explanation.holder_count, len(explanation.holders)) == (21, 10)


def test_how_many_others_run_out_with_the_one_that_is_named_is_told() -> None:
    night = Night()
    for number in range(20):
        night.note(f"w{number:02}", NOON - HOUR + number, 0)
    night.note("fast", NOON)
    night.later(20_000)
    night.note("fast", NOON + 1)
    assert (
        "writer 'w00' (1h of event time behind, silent for 20s) holds it while 'w01', 'w02', "
        "'w03' and 17 more wait; it is dropped in 40s if others keep reporting (it has been "
        "silent for 20s of the 1m allowed; 19 more run out with it);"
    ) in night.says()
    night.note("w07", NOON - HOUR + 7, 0)
    assert "20s of the 1m allowed; 18 more run out with it)" in night.says()
    for _ in range(8):
        night.passed_ms += 5_000
        night.note("fast", NOON + night.passed_ms)
    assert night.explain().states["expired"] == 7  # the eighth goes on, and nobody is below it
    night.later(11_000)
    assert "'w07' (1h 59s of event time behind, silent for 51s) holds it" in night.says()
    assert "51s of the 1m allowed; 12 more run out with it)" in night.says()


def test_those_that_run_out_together_are_counted_up_to_a_thousand() -> None:
    night = Night()
    for number in range(1_100):
        night.core.note_time(f"w{number:04}", NOON - HOUR, {}, now=night.now)
    night.note("fast", NOON)
    night.later(11_000)
    assert "11s of the 1m allowed; at least 999 more run out with it)" in night.says()


def test_who_has_said_nothing_is_named_first_where_nobody_is_ever_dropped() -> None:
    night = Night(aggregation_timeout_ms=None, hold_limit_ms=None)
    night.be_held_by_many()
    night.register("new")
    night.later(11_000)
    assert (
        "writers 'new' (registered 11s ago, no time noted yet, starts at 2024-01-01T11:00:00.000Z), 'first', 'w00' "
        "and 29 more hold it"
    ) in night.says()
    assert night.says().endswith(
        "have it note a time or leave, or expire it (its events below the watermark are then "
        "late): tidegauge expire shop/orders new"
    )


def test_who_has_said_nothing_is_named_after_who_is_dropped_first() -> None:
    night = Night()
    night.be_held_by_many()
    night.later(9_000)
    night.register("new")
    night.later(2_000)
    assert (
        "'first' (1h of event time behind, silent for 11s), 'new' (registered 2s ago, no time "
        "noted yet, starts at 2024-01-01T11:00:00.000Z; it has been silent for 2s of the 1m "
        "allowed), 'w00' and 29 more hold it"
    ) in night.says()


def test_somebody_joins_before_the_first_mark() -> None:
    night = Night()
    night.register("new")
    assert night.says() == (
        "There is no mark yet: writer 'new' (no time noted yet) holds back the first mark "
        "while no writer waits; it is dropped after 1m of silence or 10m without progress, "
        "once another writer waits; have it note a time."
    )
    night.note("fast", NOON)
    night.later(2_000)
    assert night.says() == (
        "There is no mark yet: writer 'new' (registered 2s ago, no time noted yet) holds back "
        "the first mark while 'fast' waits; it is dropped in 58s if others keep reporting (it "
        "has been silent for 2s of the 1m allowed); have it note a time or leave, or expire it "
        "(its events below the watermark are then late): tidegauge expire shop/orders new"
    )


def test_all_have_left_or_expired() -> None:
    night = Night()
    for writer in ("a", "b", "c"):
        night.note(writer, NOON)
    night.leave("a")
    night.leave("b")
    night.expire("c")
    assert night.says() == (
        "The watermark stands at 2024-01-01T12:00:00.000Z: no writer is live (2 left, 1 "
        "expired: 'c'); start a writer."
    )


def test_those_that_expired_are_named_the_latest_first_also_after_a_restart() -> None:
    night = Night()
    for writer in ("d", "b", "a", "e", "c"):
        night.note(writer, NOON)
    for writer in ("c", "a", "e", "b"):
        night.passed_ms += 1_000
        night.expire(writer)
    named = "'b', 'e', 'a' and 1 more expired and no longer hold it;"
    assert named in night.says()
    night.store()
    night.restart()
    assert named in night.says()
    night.note("e", NOON)
    night.leave("b")
    assert "'a' and 'c' expired and no longer hold it;" in night.says()
    for writer in ("d", "e"):
        night.leave(writer)
    assert "(3 left, 2 expired: 'a' and 'c')" in night.says()


def test_sealed() -> None:
    night = Night()
    night.note("a", NOON)
    night.core.seal({0: 1, 1: 0}, night.now)
    assert night.says() == (
        "The stream is sealed: its watermark is the end of time, and nothing follows."
    )
    assert night.explain().cure is None
    (holder,) = night.explain().holders
    assert holder.behind_ms is None


def test_a_quiet_night_says_who_spoke_last() -> None:
    night = Night()
    night.note("a", NOON)
    night.note("b", NOON)
    night.later(2 * HOUR)
    assert night.says() == (
        "The watermark has stood at 2024-01-01T12:00:00.000Z for 2h: no writer is ahead, 'b' "
        "reported last, 2h ago; it rises once all 2 live writers note a later time."
    )
    night.expire("b")
    assert night.says().endswith(
        "'b' expired and no longer holds it; it rises once 'a' notes a later time."
    )
    night.register("new")
    assert night.says().endswith(
        "no writer is ahead, 'new' registered without reporting, 'b' expired and no longer "
        "holds it; it rises once all 2 live writers note a later time."
    )


def test_a_pass_is_due() -> None:
    night = Night(mark_interval_ms=MINUTE)
    night.note("a", NOON)
    night.core.note_time("a", NOON + 1, {}, now=night.now)
    assert night.says() == (
        "Nothing to do: the watermark stands at 2024-01-01T12:00:00.000Z: all writers have "
        "noted a later time, and the next pass is due within 1m."
    )


def test_seconds_are_found_in_the_one_writer_that_sends_them() -> None:
    night = Night()
    night.note("seconds", NOON // 1_000)
    night.note("right", NOON)
    assert night.explain().hint == (
        "Writer 'seconds' noted 1704110400, which lies in early 1970: are these seconds? Times "
        "are milliseconds."
    )
    night.expire("seconds")
    assert night.explain().hint is None


def test_logical_time_is_no_mistake() -> None:
    night = Night(max_future_skew_ms=None)
    night.note("a", 5)
    night.note("b", NOON + 48 * HOUR)
    assert night.explain().hint is None
    assert night.says().startswith("Nothing to do: the watermark stands at 5: last is writer")


def test_how_far_logical_times_lie_apart_has_no_unit() -> None:
    night = Night(max_future_skew_ms=None)
    night.note("newbie", 7)
    night.note("other", 99)
    assert "writer 'newbie' (92 of event time behind)" in night.says()
    night.expire("newbie")
    night.note("newbie", 8)
    assert "'newbie' is returning, 91 behind: " in night.says()


def test_the_writer_whose_clock_is_ahead_is_doubted_first() -> None:
    night = Night(max_future_skew_ms=24 * HOUR)
    night.note("good", NOON)
    night.note("skewed", NOON + 5 * HOUR)
    assert night.says() == (
        "The watermark stands at 2024-01-01T12:00:00.000Z: last is writer 'good' (5h of event "
        "time behind); first check 'skewed', whose times are in the future: if its clock is "
        "wrong, stop it and expire it: tidegauge expire shop/orders skewed"
    )
    assert night.explain().hint == (
        "Writer 'skewed' noted a time 5h ahead of this server's clock: is its clock right?"
    )
    night.expire("good")
    assert night.explain().hint == (
        "The watermark is 5h ahead of this server's clock: is a writer's clock wrong? It cannot "
        "go back, so whatever is older is late until then."
    )


def test_a_writer_that_is_far_ahead_of_all_others_is_pointed_out() -> None:
    night = Night()
    night.note("gateway-1", NOON - 2 * HOUR)
    night.note("gateway-2", NOON - 2 * HOUR + MINUTE)
    night.note("gateway-3", NOON - 2 * HOUR + 7 * MINUTE)
    assert night.explain().hint is None  # six minutes are a tenth of max_future_skew_ms
    night.note("gateway-3", NOON - 2 * HOUR + 41 * MINUTE)
    doubt = "Writer 'gateway-3' is 40m ahead of all others: is its clock right?"
    assert night.explain().hint == doubt
    night.note("gateway-4", NOON - 2 * HOUR + 36 * MINUTE)
    assert night.explain().hint is None
    night.leave("gateway-4")
    assert night.explain().hint == doubt
    night.note("gateway-3", NOON + 30 * MINUTE)
    assert night.explain().hint == (
        "Writer 'gateway-3' noted a time 30m ahead of this server's clock, and is 2h 29m ahead of "
        "all others: is its clock right?"
    )


def test_no_lead_within_which_clocks_agree_is_pointed_out() -> None:
    night = Night(max_future_skew_ms=MINUTE)
    night.note("a", NOON - HOUR)
    night.note("b", NOON - HOUR)
    night.note("c", NOON - HOUR + MINUTE)
    assert night.explain().hint is None


def test_of_two_writers_nobody_can_tell_which_clock_is_wrong() -> None:
    night = Night()
    night.note("slow", NOON - HOUR)
    night.note("fast", NOON)
    assert night.explain().hint is None
    night.register("new")  # it stands where the others have reached, and has noted nothing
    assert night.explain().hint is None


def test_an_external_log_without_positions() -> None:
    night = Night()
    night.note("a", NOON, 0)
    assert night.explain().hint == (
        "No report has named an offset, so that the marks cover no event of the external log: "
        "send the next offset of each partition as the position."
    )
    night.note("a", NOON + 1, 1)
    assert night.explain().hint is None


def test_a_hot_key_is_named_by_its_segment() -> None:
    night = Night()
    night.note("a", NOON)
    assert night.core.inspect(night.now).explain(hot=[7]).hint == (
        "Hot key in segment 7: a split left the load in one part, and is not repeated for now; "
        "write that key as several, if its events need no common order."
    )


def test_an_event_with_an_odd_time_is_named_for_ten_minutes() -> None:
    night = Night()
    night.note("a", NOON)
    seen = night.core.inspect(night.now)
    now_ms = night.now.wall_ms

    def hint(time: int, writer: str | None = "w", *, ago_ms: int = 0) -> str | None:
        return seen.explain(odd_event=OddEvent(time, writer, now_ms - ago_ms)).hint

    seconds = (
        "event time 1704110400 lies in early 1970: are these seconds? Times are milliseconds"
    )
    assert hint(NOON // 1_000) == f"Writer 'w' appended an odd time: {seconds}."
    assert hint(now_ms + 49 * HOUR, None) == (
        "Somebody appended an odd time: event time 1704286800000 is 2d 1h ahead of this server's "
        "clock: is it right? If such times are meant, raise max_future_skew_ms."
    )
    assert hint(now_ms + HOUR) is None
    assert hint(NOON // 1_000, ago_ms=10 * MINUTE) is not None
    assert hint(NOON // 1_000, ago_ms=10 * MINUTE + 1) is None


def test_merged_segments() -> None:
    night = Night(Topology.of_equal_ranges(2))
    night.note("slow", NOON)
    merged = Segment(2, KeyRange(0, 1), (0, 1))
    night.core.change_topology(night.core.topology.scaled({0: 5, 1: 3}, [merged]))
    night.core.note_time("fast", NOON + MINUTE, {2: 4}, now=night.now)
    night.later(0)
    night.later(1_000)
    assert night.says() == (
        "Nothing to do: the watermark has stood at 2024-01-01T12:00:00.000Z for 1s: last is "
        "writer 'slow' (1m of event time behind, silent for 1s)."
    )
    night.core.note_time("slow", NOON + MINUTE, {0: 5}, now=night.now)
    night.later(0)
    assert night.core.newest is not None
    assert night.core.newest.cut == {2: 4}
    assert night.says().endswith("it rises once all 2 live writers note a later time.")


def test_behind_is_measured_to_whoever_is_still_waited_for() -> None:
    night = Night(max_future_skew_ms=24 * HOUR)
    night.note("slow", NOON)
    night.note("fast", NOON + MINUTE)
    night.note("poison", NOON + 5 * HOUR)
    night.expire("poison")
    (holder,) = night.explain().holders
    assert (holder.writer, holder.behind_ms) == ("slow", MINUTE)


def test_who_is_forgotten_leads_nobody() -> None:
    night = Night(writer_retention_ms=0)
    night.note("slow", NOON)
    night.note("fast", NOON + MINUTE, 0)
    assert [one.behind_ms for one in night.explain().holders] == [MINUTE]
    night.leave("fast")
    assert [one.behind_ms for one in night.explain().holders] == [0]
    assert night.explain().waiting == []


def test_after_a_restart_the_watermark_has_stood_as_long() -> None:
    night = Night()
    night.note("a", NOON)
    night.store()
    night.restart()
    night.later(HOUR)
    assert "has stood at 2024-01-01T12:00:00.000Z for 1h" in night.says()


def test_after_a_restart_it_is_known_since_when_writers_are_silent() -> None:
    night = Night()
    for name, passed_ms in (("early", 0), ("late", MINUTE), ("late", HOUR)):
        night.later(passed_ms)
        night.note(name, NOON + passed_ms)
        night.store()
    night.later(MINUTE)
    night.restart()
    silent = {one.writer: one.silent_ms for one in night.core.inspect(night.now).statuses()}
    assert silent == {"early": HOUR + 2 * MINUTE, "late": MINUTE}


def test_after_a_restart_it_is_known_who_spoke_last() -> None:
    night = Night()
    for name in ("b", "a", "b", "c", "a"):
        night.note(name, NOON)
        night.store()
        night.later(HOUR)
    night.restart()
    assert "'a' reported last, 1h ago" in night.says()
