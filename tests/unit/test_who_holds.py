"""Who may hold the watermark, and how long: what happens to a stream, and what comes of it."""

from collections.abc import Iterator

import pytest

from tests.property.memory import Memory
from tidegauge.aggregation.aggregator import Aggregator
from tidegauge.aggregation.progress import Progress
from tidegauge.aggregation.settings import StreamSettings
from tidegauge.aggregation.writers import Now, Writer
from tidegauge.topology import Topology


class Story:
    """A stream whose writers report at given times; after each of them its pass runs."""

    def __init__(self, *, timeout_ms: int, limit_ms: int = 600_000) -> None:
        settings = StreamSettings(
            aggregation_timeout_ms=timeout_ms, hold_limit_ms=limit_ms, mark_resolution_ms=0
        )
        self.core = Aggregator("scope/stream", settings, Topology.of_equal_ranges(1))
        self.incarnations: dict[str, int] = {}

    def note(self, at_ms: int, writer: str, time: int) -> None:
        self.core.note_time(
            writer, time, {}, incarnation=self.incarnations.get(writer), now=self.now(at_ms)
        )
        self.run_pass(at_ms)

    def register(self, at_ms: int, writer: str) -> int | None:
        answer = self.core.register(writer, now=self.now(at_ms))
        self.incarnations[writer] = answer.incarnation
        self.run_pass(at_ms)
        return answer.time

    def run_pass(self, at_ms: int) -> list[str]:
        """Run a pass, and tell whom it dropped."""
        return self.core.run_pass(self.now(at_ms)).expired

    def now(self, at_ms: int) -> Now:
        return Now(at_ms, at_ms)

    @property
    def watermark(self) -> int | None:
        return self.core.watermark


def test_twenty_writers_that_vanish_together_are_passed_after_one_timeout() -> None:
    story = Story(timeout_ms=1_000)
    for number in range(20):
        story.note(0, f"w{number}", number * 10)
    for at_ms in range(0, 1_000, 100):
        story.note(at_ms, "steady", 200 + at_ms)
    assert story.run_pass(999) == []
    assert story.watermark == 0
    assert len(story.run_pass(1_000)) == 20
    assert story.watermark == 1_100


def test_the_watermark_lags_by_about_one_start_while_thirty_are_restarted_in_turn() -> None:
    story = Story(timeout_ms=60_000)
    for number in range(30):
        story.register(0, f"w{number}")
        story.note(0, f"w{number}", 0)
    lags = []
    for starting in range(30):
        begun_ms = 500 + starting * 2_000
        story.register(begun_ms, f"w{starting}")
        for at_ms in (begun_ms + 500, begun_ms + 1_000, begun_ms + 1_500):
            for number in range(30):
                if number != starting:
                    story.note(at_ms, f"w{number}", at_ms)
            assert story.watermark is not None
            lags.append(at_ms - story.watermark)
        story.note(begun_ms + 2_000, f"w{starting}", begun_ms + 2_000)
    assert max(lags) == 2_000
    assert len(lags) == 90


@pytest.mark.parametrize("timeout_ms", [1_000, 10_000, 60_000])
def test_no_row_is_late_after_the_whole_pipeline_stood_still_for_thirty_seconds(
    timeout_ms: int,
) -> None:
    story = Story(timeout_ms=timeout_ms)
    for at_ms in range(0, 10_000, 100):
        story.note(at_ms, "a", at_ms)
        story.note(at_ms, "b", at_ms)
    story.note(9_950, "a", 9_950)
    story.run_pass(25_000)
    story.run_pass(39_899)
    # Both have rows of the time in which nothing went on; a is the first to speak again.
    story.note(39_900, "a", 39_900)
    story.run_pass(39_900 + timeout_ms // 2 - 100)
    assert story.watermark == 9_900
    story.note(39_900 + timeout_ms // 2 - 100, "b", 39_900)
    assert story.watermark == 39_900


def test_a_writer_that_beats_is_waited_for_up_to_the_limit() -> None:
    story = Story(timeout_ms=1_000, limit_ms=10_000)
    story.note(0, "beats", 0)
    for at_ms in range(250, 10_000, 250):  # from the first of them on somebody is ahead
        story.note(at_ms, "others", at_ms)
        story.note(at_ms, "beats", 0)
    assert (story.watermark, story.core.state("beats")) == (0, "behind")
    assert story.run_pass(10_249) == []
    assert story.run_pass(10_250) == ["beats"]
    assert story.watermark == 9_750


def test_a_device_that_lags_is_waited_for_at_its_first_report_after_an_outage() -> None:
    story = Story(timeout_ms=60_000)
    for at_ms in range(0, 20_000, 1_000):
        story.note(at_ms, "others", at_ms)
        story.note(at_ms, "lags", at_ms - 5_000)
    for at_ms in range(20_000, 140_000, 1_000):
        story.note(at_ms, "others", at_ms)
    assert (story.watermark, story.core.state("lags")) == (139_000, "expired")
    story.note(140_000, "lags", 135_000)
    story.note(140_000, "others", 140_000)
    assert story.core.state("lags") == "behind"
    assert story.watermark == 139_000
    story.note(145_000, "lags", 140_000)
    assert story.watermark == 140_000


def test_nobody_is_dropped_in_a_quiet_night_and_the_first_rows_of_the_morning_are_in_time() -> (
    None
):
    evening, morning = 10_000, 28_810_000
    story = Story(timeout_ms=60_000)
    for writer, time in (("a", 1_000), ("b", 2_000), ("last", evening)):
        story.note(time, writer, time)
    dropped = [story.run_pass(at_ms) for at_ms in range(evening, morning, 60_000)]
    assert not any(dropped)
    story.note(morning, "last", morning)
    story.run_pass(morning + 20_000)
    assert story.watermark == 1_000
    story.note(morning + 20_000, "a", morning)
    story.note(morning + 20_000, "b", morning)
    assert story.watermark == morning


def test_a_process_that_registers_and_crashes_for_ever_holds_the_others_for_one_timeout() -> (
    None
):
    story = Story(timeout_ms=1_000)
    story.note(0, "others", 0)
    held_ms = []
    for at_ms in range(100, 60_000, 100):
        story.note(at_ms, "others", at_ms)
        if at_ms % 700 == 0:
            story.register(at_ms, "crashes")
        if story.watermark != at_ms:
            held_ms.append(at_ms)
    assert held_ms == list(range(800, 1_800, 100))


class _CountsLooks(dict[Writer, None]):
    """The writers that are ahead; counts how often all of them are looked at."""

    looks = 0

    def __iter__(self) -> Iterator[Writer]:
        self.looks += 1
        return super().__iter__()


@pytest.mark.parametrize("storage", [None, Memory()], ids=["runs on", "restarts"])
def test_what_the_others_reached_is_looked_for_when_somebody_registers_and_is_of_the_last_pass(
    monkeypatch: pytest.MonkeyPatch, storage: Memory | None
) -> None:
    ahead = _CountsLooks()

    class Counted(Progress):
        def __init__(self) -> None:
            super().__init__()
            self.ahead = ahead

    monkeypatch.setattr("tidegauge.aggregation.aggregator.Progress", Counted)
    story = Story(timeout_ms=60_000)
    for writer in ("a", "b"):
        story.note(0, writer, 10)
    story.register(0, "joins")
    looks, changes = [], [story.core.take_changes()]
    for at_ms in range(1, 100):
        story.note(at_ms, "a", 10 + at_ms)
        story.note(at_ms, "b", 20 + at_ms)
        looks.append(ahead.looks)
    assert looks[1] == looks[-1]
    for time in (500, 600):  # after the last pass, so that they do not count
        story.core.note_time("a", time, {}, now=story.now(100))
    if storage is not None:
        core = story.core
        for each in (*changes, core.take_changes()):
            storage.apply(each)
        story.core = Aggregator.restore(
            core.stream, core.settings, core.topology, storage.stored()
        )
    assert story.core.register("first", now=story.now(100)).time == 109
    looks.append(ahead.looks)
    assert story.core.register("second", now=story.now(100)).time == 109
    assert ahead.looks == looks[-1]
