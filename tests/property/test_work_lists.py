"""The seven laws of a work list, on a table in memory; each has a seeded bug that it finds."""

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any
from zoneinfo import available_timezones

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.table_model import SPAN, Model, ModelFiles, Version, contents, expected
from tidegauge import intervals as pure
from tidegauge.event_time import END_OF_TIME
from tidegauge.intervals import Interval, Tiling
from tidegauge.local_days import DAY_MS
from tidegauge.tables import WorkList, intervals, work

TILING = Tiling(SPAN)
ZONES = sorted(available_timezones() - {"localtime", "Factory"})
SEEDS = range(150)


def look(files: ModelFiles, since: str | None = None, **how: Any) -> WorkList:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidegauge.tables.listing._open_files", lambda *_: files)
        return intervals("table", since=since, by=f"{SPAN}ms", **how)


def cursor(version: Version) -> str:
    return json.dumps([version.commit.version, version.until, "id", SPAN, None, "t"])


def known(model: Model) -> list[int]:
    return [at for at, version in enumerate(model.versions) if version.until is not None]


def ends(found: Iterable[Interval]) -> set[tuple[int, int]]:
    return {(interval.start, interval.end) for interval in found}


def equals_brute_force(seed: int) -> None:
    model = Model(seed)
    for since in (None, *known(model)):
        old = None if since is None else cursor(model.versions[since])
        found = look(model.files(len(model.versions) - 1), old, event_time="t")
        assert found.until == model.versions[-1].until
        assert (found.new, found.again) == expected(model.versions, since, TILING)
        assert found.cursor == (old if found.until is None else cursor(model.versions[-1]))


def names_what_differs(seed: int) -> None:
    only_appends = seed % 2 == 0
    model = Model(seed, without=("delete", "compact", "restore") if only_appends else ())
    last = model.versions[-1]
    for since in known(model) if last.until is not None else ():
        first = model.versions[since]
        edge = min(first.until or 0, last.until or 0)
        again = ends(look(model.files(last.commit.version), cursor(first)).again)
        rows = [
            row for one in (first, last) for file in one.files.values() for row in file.rows
        ]
        for start in {TILING.floor(time) for time, _ in rows if time is not None}:
            box = (start, start + SPAN)
            if box[1] <= edge:
                differs = contents(first, box) != contents(last, box)
                assert box in again or not differs
                assert box not in again or differs or not only_appends


def tiles(seed: int) -> None:
    model = Model(seed, without=("restore", "final"))
    listed, since = list[Interval](), None
    for at in range(len(model.versions)):
        found = look(model.files(at), since, event_time="t")
        listed, since = listed + found.new, found.cursor
    assert all(one.end == two.start for one, two in pairwise(listed))
    assert not listed or listed[-1].end == TILING.floor(model.versions[-1].until or 0)


def lists_nothing_behind_itself(seed: int) -> None:
    model = Model(seed)
    for at in known(model):
        found = look(model.files(at))
        behind = look(model.files(at), found.cursor)
        assert (behind.new, behind.again, behind.cursor) == ([], [], found.cursor)
        if at + 1 < len(model.versions) and model.versions[at + 1].kind == "compact":
            behind = look(model.files(at + 1), found.cursor)
            assert (behind.new, behind.again) == ([], [])


def adds_up(seed: int) -> None:
    # After a final note a DELETE takes the last interval away, which the looks between named.
    model = Model(seed, without=("restore", "final"))
    for at in known(model)[:1]:
        since, named = cursor(model.versions[at]), set[tuple[int, int]]()
        for later in range(at + 1, len(model.versions)):
            found = look(model.files(later), since)
            since, named = found.cursor or "", named | ends(found.new + found.again)
        found = look(model.files(len(model.versions) - 1), cursor(model.versions[at]))
        assert ends(found.new + found.again) == named


def reads_little(seed: int) -> None:
    model = Model(seed, without=("delete", "final"))
    for since in known(model):
        first, files = model.versions[since], model.files(len(model.versions) - 1)
        look(files, cursor(first), event_time="t")
        newest = len(model.versions) - 1
        assert min(files.log.asked) >= min(since, newest - 19)
        for path in files.read - first.files.keys():
            stored = next(one.files[path] for one in model.versions if path in one.files)
            assert (
                not stored.has_statistics
                or not stored.times()
                or min(stored.times()) < (first.until or 0)
            )


LAWS: dict[str, Callable[[int], None]] = {
    "a": equals_brute_force,
    "b": names_what_differs,
    "c": tiles,
    "d": lists_nothing_behind_itself,
    "e": adds_up,
    "f": reads_little,
}


@pytest.mark.parametrize("law", LAWS)
def test_a_law_holds_on_random_histories(law: str) -> None:
    holds(law)


def holds(law: str) -> None:
    for seed in SEEDS:
        LAWS[law](seed)


def _next_interval(files: object, now: work.Cursor, before: object, **how: object) -> object:
    begin, end = _EXTENT(files, now, before, **how)
    return (begin if begin is None or before is None else begin + SPAN), end


_EXTENT: Callable[..., tuple[int | None, int]] = work._extent_of_new
_CHANGES = ModelFiles.changes
BUGS: dict[str, tuple[object, str, object]] = {
    "a": (pure.ChangedIntervals, "__post_init__", lambda _: None),
    "b": (work, "_touched", lambda *_: []),
    "c": (work, "_extent_of_new", _next_interval),
    "d": (
        work.Cursor,
        "to_text",
        lambda it: json.dumps([it.version - 1, it.until, it.table_id, SPAN, None, "t"]),
    ),
    "e": (ModelFiles, "changes", lambda files: _CHANGES(files)[-1:]),
    "f": (work, "_may_have", lambda *_: True),
}


@pytest.mark.parametrize("law", BUGS)
def test_a_law_finds_its_seeded_bug(law: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*BUGS[law])
    with pytest.raises(AssertionError):
        holds(law)


def floor_of_each_time_is_the_start(zone: str, by: str, time: int) -> None:
    tiling = Tiling.parse(by, zone)
    start = tiling.floor(time)
    end = tiling.after(start)
    assert start <= time < end
    assert tiling.floor(start) == start == tiling.floor(end - 1)
    assert tiling.floor(end) == end


@given(
    st.sampled_from(ZONES),
    st.sampled_from(["15m", "1 hour", "6 hours", "1 day", "7 days"]),
    st.integers(0, 40_000 * DAY_MS),
)
@example("Pacific/Apia", "1 day", 1_325_239_200_000)  # a day that the zone left out
def test_law_g_each_time_is_in_the_interval_that_it_is_floored_to(
    zone: str, by: str, time: int
) -> None:
    floor_of_each_time_is_the_start(zone, by, time)


def test_law_g_finds_its_seeded_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pure, "day_of", lambda _, time: time // DAY_MS)
    with pytest.raises(AssertionError):
        floor_of_each_time_is_the_start("Asia/Tokyo", "1 day", 20 * 3_600_000)


def test_local_days_are_as_long_as_clocks_make_them() -> None:
    begin = round(datetime(2026, 3, 28, 23, tzinfo=UTC).timestamp() * 1000)
    days = list(Tiling.parse("1 day", "Europe/Paris").between("t", begin, begin + 3 * DAY_MS))
    assert [(one.end - one.start) // 3_600_000 for one in days[:2]] == [23, 24]
    hours = Tiling.parse("12 hours", "Europe/Paris").between("t", begin, days[1].start)
    assert [(one.end - one.start) // 3_600_000 for one in hours] == [12, 11]


@pytest.mark.parametrize("by", ["0 hours", "hour", "1 month", "-1h", "1.5h"])
def test_a_length_that_is_none_is_refused(by: str) -> None:
    with pytest.raises(ValueError, match=r"no length of|not a length of time"):
        Tiling.parse(by)


@pytest.mark.parametrize(
    ("former", "now", "start"),
    [
        (("1 day", None), ("1 hour", None), "2026-01-05T00"),
        (("7 days", None), ("1 day", None), "2026-01-01T00"),
        (("1 day", None), ("1 day", "Asia/Kolkata"), "2026-01-04T18:30"),
        (("1 day", "America/New_York"), ("1 day", None), "2026-01-05T00"),
        (("1 hour", None), ("1 day", None), "2026-01-05T00"),
        (("1 hour", None), ("1 hour", "Asia/Kolkata"), "2026-01-05T20:30"),
    ],
)
def test_a_cursor_of_other_intervals_is_refused_with_where_to_begin(
    former: tuple[str, str | None], now: tuple[str, str | None], start: str
) -> None:
    until = round(datetime(2026, 1, 5, 21, 30, tzinfo=UTC).timestamp() * 1000)
    cursor = work.Cursor(1, until, "id", Tiling.parse(*former), "t").to_text()
    then = work.Cursor.parse(cursor).tiling
    Tiling.parse(*former).check_cursor(then, until)
    with pytest.raises(ValueError, match=rf"start again without it .* and pass start={start}"):
        Tiling.parse(*now).check_cursor(then, until)


def test_spans_are_one_however_they_are_written() -> None:
    Tiling.parse("60m").check_cursor(Tiling.parse("1 hour", "UTC"), 5)
    with pytest.raises(ValueError, match="pass start=, the end of the last interval"):
        Tiling.parse("1 day").check_cursor(Tiling.parse("1 hour"), END_OF_TIME)


def test_a_length_that_does_not_fit_into_days_is_refused_in_a_zone() -> None:
    assert Tiling.parse("7h").length == 25_200_000
    with pytest.raises(ValueError, match="neither divides a day nor is made of days"):
        Tiling.parse("7h", "Europe/Paris")


def test_start_clips_both_lists_and_one_odd_row_does_not_make_a_million_intervals() -> None:
    def at(path: str, *times: int) -> work.File:
        return work.File(path, len(times), min(times), max(times), list(times))

    class Files:
        def times(self, file: work.File, below: int) -> list[int]:
            assert isinstance(file.data, list)
            return [time for time in file.data if time < below]

        def extent(self, version: int) -> tuple[int, int]:
            return 5, 10_000_000 + version

    def ended(version: int, until: int) -> work.Cursor:
        return work.Cursor(version, until, "id", TILING, "t")

    def found(first: int | None, *changes: work.Change) -> WorkList:
        now, before = ended(2, 10_000_020), ended(1, 10_000_000)
        return work.work_list("t", Files(), changes, now=now, before=before, first=first)

    odd = work.Change(added=[at("a", 5)], removed=[at("b", 5, 9_999_999, 10_000_001)])
    assert [one.start for one in found(None, odd).again] == [0, 9_999_990]
    assert [one.start for one in found(9_999_980, odd).again] == [9_999_990]
    late = work.Change(added=[at("c", 5, 9_999_999)])
    listed = found(9_999_990, late)
    assert [(one.start, one.rows) for one in listed.again] == [(9_999_990, 1)]
    assert [one.start for one in found(10_000_010, late).new] == [10_000_010]
    now = ended(1, END_OF_TIME)
    with pytest.raises(pure.TooManyIntervalsError, match="more than 100000 intervals"):
        work.work_list("t", Files(), (), now=now, before=None, first=None)
