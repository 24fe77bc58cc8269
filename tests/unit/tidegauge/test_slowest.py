"""Which writers are listed as the slowest, while they go on."""

from tidegauge import Aggregator, Now, StreamSettings, Topology

SECOND = 1_000
NOW, LATER = Now(SECOND, SECOND), Now(2 * SECOND, 2 * SECOND)


def test_all_writers_are_looked_through_once_a_second_at_most() -> None:
    core = Aggregator("a/b", StreamSettings(), Topology.of_partitions(1))

    def note(number: int, time_s: int) -> None:
        core.note_time(f"w{number:03}", time_s * SECOND, {}, now=NOW)

    def slowest(count: int, now: Now = NOW) -> list[str]:
        return [status.writer for status in core.inspect(now).slowest(count)]

    for number in reversed(range(300)):
        note(number, number)
    core.run_pass(NOW)
    assert slowest(2) == ["w000", "w001"]
    for number in range(99):
        note(number, 400)
    assert slowest(1) == ["w099"]
    note(99, 399)
    assert slowest(1) == ["w099"]  # of the hundred that were the slowest a moment ago
    assert slowest(1, LATER) == ["w100"]
    assert slowest(300, LATER)[-1] == "w098"
