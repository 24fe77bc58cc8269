"""Listening time never goes further than its stamps allow, whatever the clock underneath does."""

from controller.clocks import ListeningClock


class Underneath:
    """A monotonic clock that is moved by hand, back too."""

    def __init__(self) -> None:
        self.now_ms = 900_000

    def __call__(self) -> int:
        return self.now_ms


def test_a_monotonic_clock_that_goes_back_gives_nobody_time() -> None:
    underneath = Underneath()
    clock = ListeningClock(5_000, underneath)
    clock.stamp()
    underneath.now_ms += 250
    assert clock.stamp() == 5_250
    underneath.now_ms -= 600_000
    assert clock.now_ms() == 5_250
    assert clock.stamp() == 5_250
    underneath.now_ms += 250
    assert clock.now_ms() == 5_500


def test_a_step_longer_than_a_second_counts_as_one() -> None:
    underneath = Underneath()
    clock = ListeningClock(5_000, underneath)
    clock.stamp()
    underneath.now_ms += 600_000
    assert clock.now_ms() == 6_000
    assert clock.stamp() == 6_000
