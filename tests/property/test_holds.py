"""Who held the watermark: what is stored, against brute force on random histories; and that it finds bugs."""

from collections.abc import Callable, Mapping, Sequence
from random import Random

import pytest

from tests.effort import Effort
from tests.property.night import Night, check
from tidegauge.aggregation.changes import Moment, Paced
from tidegauge.aggregation.clocks import HoldClocks
from tidegauge.aggregation.holds import Holds
from tidegauge.aggregation.writers import Now
from tidegauge.holds import Hold, HoldEnd
from tidegauge.marks import Mark
from tidegauge.states import Clock

_FOUND_WITHIN = 60


def _live_through(count: int, *, sees_all: bool = True) -> int:
    spans = 0
    for seed in range(count):
        random = Random(seed)
        night = Night(random, sees_all=sees_all)
        spans += check(night, night.live(random.choice([40, 80, 160])))
    return spans


@pytest.mark.parametrize("sees_all", [True, False])
def test_stored_spans_say_who_held_the_watermark(effort: Effort, *, sees_all: bool) -> None:
    count = effort.times("histories", short=60, long=3_000)
    spans = _live_through(count, sees_all=sees_all)
    effort.note("spans", spans)
    assert spans > count


class _Blaming(Holds):
    """Names one that came when all was over."""

    def look(
        self, now: Now, watermark: int | None, *, ran_out: Mapping[str, Clock]
    ) -> Hold | None:
        ended = super().look(now, watermark, ran_out=ran_out)
        self._newcomers = {}
        return ended


class _Hasty(Holds):
    """Names the holder that ceased first."""

    def look(
        self, now: Now, watermark: int | None, *, ran_out: Mapping[str, Clock]
    ) -> Hold | None:
        first = self._last
        ended = super().look(now, watermark, ran_out=ran_out)
        self._last = first or self._last
        return ended


class _Forgetful(Holds):
    """Forgets over a restart that somebody was held."""

    def restore(self, paced: Paced) -> None:
        self._clocks.held = None
        super().restore(paced)


class _Trusting(Holds):
    """Takes all that hold after a restart for those that did from the beginning."""

    def restore(self, paced: Paced) -> None:
        super().restore(paced)
        self._newcomers = {}


class _Endless(Holds):
    """Goes on where nobody waits any more."""

    def settle(
        self,
        now: Now,
        before: int | None,
        marks: Sequence[Mark],
        *,
        is_held: bool,
        end: HoldEnd = "quiet",
    ) -> Hold | None:
        return super().settle(now, before, marks, is_held=is_held or not marks, end=end)


class _Uncounted(Holds):
    """Says how many held at the beginning."""

    def _begin(self, now: Now, *, hold: Moment | None = None) -> None:
        super()._begin(now, hold=hold)
        self._others, self._sampled_ms = self._count + 9, 10**9


def _replaces(holds: type[Holds]) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr("tidegauge.aggregation.passes.Holds", holds)


def _counts_no_gap(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HoldClocks, "_count_gap", lambda _clocks, _now_ms: None)


def _counts_all(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("tidegauge.aggregation.clocks.COUNTED_GAP_MS", 10**9)


def _hears_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        "tidegauge.aggregation.writers.Noted.spoke_ms", property(lambda _: 0, lambda *_: None)
    )


def _blames_the_operator(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HoldClocks, "run_out", lambda *_: "operator")


@pytest.mark.parametrize(
    ("defect", "law"),
    [
        (_replaces(_Blaming), "did not hold"),
        (_replaces(_Hasty), "did not hold"),
        (_replaces(_Forgetful), "a hold is not stored|outside of any hold|not covered"),
        (_replaces(_Trusting), "did not hold"),
        (_replaces(_Endless), "outside of any hold"),
        (_replaces(_Uncounted), "another number of others"),
        (_counts_no_gap, "another silence"),
        (_counts_all, "more counts than may"),
        (_hears_nobody, "reported?"),
        (_blames_the_operator, "expired by its clock"),
    ],
)
def test_a_defect_is_found(
    monkeypatch: pytest.MonkeyPatch, defect: Callable[[pytest.MonkeyPatch], None], law: str
) -> None:
    defect(monkeypatch)
    with pytest.raises(AssertionError, match=law):
        _live_through(_FOUND_WITHIN)
