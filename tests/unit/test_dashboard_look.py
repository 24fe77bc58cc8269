"""What the dashboard says of what it sees: sentences, pictures, scales."""

import re
from collections.abc import Iterable
from colorsys import rgb_to_hls
from pathlib import Path
from typing import Any

import pytest

from tests.listed_streams import (
    LAZY,
    MARK,
    NOW,
    STATES,
    brief_of,
    details_of,
    group_of,
    window_of,
    writer_of,
)
from tidegauge.event_time import END_OF_TIME
from tidegauge.explain.states import Judgement, Pace
from tidegauge.wire.groups import ListedGroup, TimeWindowInfo
from tidegauge.wire.streams import MarkInfo, StreamBrief, StreamInfo
from tidegauge.wire.writers import Watermark, WriterInfo
from tidegauge_dashboard.history import History, Holders, Samples
from tidegauge_dashboard.page import chart, group, groups, headline, overview, segments, tabs
from tidegauge_dashboard.page.scales import BehindScale, relative_heights, water_height
from tidegauge_dashboard.page.sorting import sorted_by
from tidegauge_dashboard.page.words import Times, per_second, plural, rounded, span_text

MOVING = Judgement("moving", "green")
HELD = Judgement("held", "amber", NOW - 38_000)
TIMES = Times.of(follows_clock=True, example=NOW)
LOGICAL = Times.of(follows_clock=False, example=None)


def _row(
    brief: StreamBrief,
    judgement: Judgement = MOVING,
    watermarks: list[int | None] = [None] * 60,
    *groups_: ListedGroup,
    now_ms: int = NOW,
) -> Any:
    """Draw the row of a stream in the overview."""
    entry = overview.Entry(brief, judgement, Pace(), watermarks, NOW)
    return overview.row_of(entry, groups_, now_ms=now_ms)


def test_a_row_names_who_holds_and_until_when() -> None:
    row = _row(
        brief_of(marked_ms=NOW - 70_000, explained={"holder_count": 3}),
        HELD,
        [None] * 59 + [NOW - 20_000],
        now_ms=NOW + 1_500,
    )
    assert (row["who"], row["others"], row["drops"]) == ("slow", "and 2 more", NOW + 9_000)
    assert row["tube"]["heights"][-2:] == [None, water_height(20_000)]


def test_the_state_that_is_chosen_can_be_seen_without_a_stream_in_it() -> None:
    moving = {"state": "moving", "text": "1 moving", "tone": "green"}
    assert overview.pills_of([MOVING]) == [moving]
    ended = {"state": "ended", "text": "0 ended", "tone": "grey"}
    assert overview.pills_of([MOVING], "ended") == [moving, ended]


@pytest.mark.parametrize(
    ("given", "note"),
    [
        ({}, None),
        ({"explained": {"next_expiry_ms": None}}, "dropped if others report"),
        (
            {"explained": {"next_expiry_ms": None, "holder_count": 2}},
            "not dropped: all others left",
        ),
        (
            {"explained": {"next_expiry_ms": None, "hint": "Seconds?"}, "drops_writers": False},
            "never dropped · Seconds?",
        ),
    ],
)
def test_a_row_says_whether_who_holds_is_ever_dropped(given: Any, note: str | None) -> None:
    assert _row(brief_of(**given), HELD)["note"] == note


def _head(judgement: Judgement, **explained: Any) -> Any:
    """Draw the head of a stream of which `slow` is last, as was explained at NOW."""
    last = _writer("slow", NOW - 66_000, 66_000, silent_ms=52_000)
    explanation = brief_of().explanation
    assert explanation is not None
    clock = {
        "stream": "a/b",
        "stream_id": "1",
        "watermark": NOW - 69_000,
        "final": False,
        "mark": None,
        "explanation": explanation.model_dump()
        | {"sentence": "It has stood for 38s.", "holders": [last.model_dump()]}
        | {"waiting": ["quick"], **explained},
    }
    found = Watermark.model_validate(clock)
    return headline.head_of(brief_of(), judgement, found, clock_ms=NOW, marks_per_s=0)


def _said(parts: Iterable[Any]) -> str:
    """Read a sentence as the page does at NOW."""
    return "".join(
        part["text"]
        if "text" in part
        else span_text(NOW - part["since"] if "since" in part else part["until"] - NOW)
        for part in parts
    )


def _tones(part: Any) -> set[str]:
    """Collect all tones of a picture."""
    if isinstance(part, list | tuple):
        return set().union(*map(_tones, part))
    if not isinstance(part, dict):
        return set()
    own = {value for name, value in part.items() if "tone" in name or name == "edge"}
    return own.union(*map(_tones, part.values()))


def _pictures(judgement: Judgement, group_behind_ms: int) -> list[Any]:
    """Draw all that shows a stream with a last writer, and a group that reads it."""
    holder = "slow" if judgement.is_held else None
    window = window_of(lower=NOW - group_behind_ms, position={1: 3})
    group_ = group_of(LAZY, window)
    slow = _writer("slow", NOW - 66_000, 66_000, state="behind", silent_for_ms=52_000)
    gone = _writer("gone", None, None, state="expired")
    brief = brief_of(watermark=NOW, explained={"states": STATES | {"expired": 1}})
    how: Any = {"holder": holder, "tone": judgement.tone, "times": TIMES}
    return [
        _row(brief, judgement, [NOW] * 60, group_),
        _head(judgement, states=STATES | {"expired": 1}),
        chart.chart_of([NOW], History(), Samples(), {}, now_ms=NOW, **how),
        chart.race_of([slow], 2, watermark=NOW, **how),
        _writers_tab([slow, gone], judgement=judgement, aggregation_timeout_ms=60_000),
        _section(group_),
        tabs.readers_tab("a/b", [group_], TIMES, NOW),
    ]


def _section(group_: ListedGroup) -> Any:
    """Draw a group on its page, as it reads the first of its streams."""
    (window,) = group_.windows or []
    return group.section_of(details_of(group_), window, _info(first_cut={0: 0}), now_ms=NOW)


def _writers_tab(
    writers: list[WriterInfo],
    *,
    judgement: Judgement = MOVING,
    total: int | None = None,
    **settings: int,
) -> Any:
    return tabs.writers_tab(
        writers,
        _info().config.model_copy(update=settings),
        judgement=judgement,
        total=len(writers) if total is None else total,
        prefix="",
        asked_ms=NOW,
        times=TIMES,
    )


def test_what_is_healthy_has_no_colour_of_trouble() -> None:
    healthy = _tones(_pictures(MOVING, group_behind_ms=1_000))
    assert healthy <= {"green", "grey", "blue", "ink", "none", None}


@pytest.mark.parametrize("tone", ["amber", "red"])
def test_trouble_has_one_colour_wherever_it_is_shown(tone: Any) -> None:
    pictures = _pictures(Judgement("held", tone, NOW - 38_000), group_behind_ms=1_000)
    of_stream = pictures[:5]
    assert [_tones(one) & {"amber", "red"} for one in of_stream] == [{tone}] * 5


def test_a_group_far_behind_is_amber_with_what_keeps_it_back() -> None:
    section = _pictures(MOVING, group_behind_ms=61_000)[5]
    assert (section["tone"], [one["tone"] for one in section["segments"]]) == (
        "amber",
        ["amber"],
    )


@pytest.mark.parametrize("readers", [{}, LAZY])
@pytest.mark.parametrize(
    ("lower", "amber"), [(NOW - 1_000, False), (NOW - 61_000, True), (None, True)]
)
def test_a_group_has_one_colour_in_the_overview_and_on_its_page(
    *, readers: Any, lower: int | None, amber: bool
) -> None:
    group_ = group_of(readers, window_of(lower=lower, position={1: 3}))
    (window,) = group_.windows or []
    in_overview = overview.behind_of(group_, window, TIMES, window.watermark)[2]
    on_page = _section(group_)["tone"]
    assert (in_overview == "amber", on_page == "amber") == (amber, amber)


def _hue_angles(pattern: str) -> set[int]:
    """Read colours of the style sheet, as degrees of the colour circle."""
    style = (Path(chart.__file__).parents[1] / "static/style.css").read_text()
    declared = " ".join(re.findall(f"(?:{pattern})([^;}}]*)", style))  # for light and for dark
    colours = [bytes.fromhex(one) for one in re.findall(r"#([0-9a-f]{6})\b", declared)]
    return {round(360 * rgb_to_hls(*(part / 255 for part in one))[0]) for one in colours}


def test_names_have_colours_outside_the_hues_of_states() -> None:
    states = _hue_angles(r"--(?:red|amber|amber-strong|green|blue): ")
    names = _hue_angles(r"\.hue-\d+ \{ background: ")
    assert len(names) >= 6
    apart = [min(abs(a - b), 360 - abs(a - b)) for a in states for b in names]
    assert min(apart) >= 20


def test_a_head_says_each_age_once() -> None:
    head = _head(HELD)
    assert _said(head["headline"]) == "Held by slow for 38s dropped in 9s"
    assert (
        _said(head["sentence"])
        == "It is 1m 6s of event time behind the first, and reported 52s ago. quick waits."
    )
    moving = _head(MOVING)
    assert _said(moving["headline"]) == "Moving"
    assert _said(moving["sentence"]) == "slow is last, 1m 6s of event time behind the first."
    level = [_writer("slow", NOW, 300).model_dump()]
    said = _said(_head(MOVING, holders=level)["sentence"])
    assert said == "slow is last, less than 1s of event time behind the first."
    assert _said(_head(Judgement("odd", "amber", NOW))["sentence"]) == "It has stood for 38s."
    silent = _head(Judgement("silent", "grey", NOW - 660_000), silent_ms=660_000)
    assert _said(silent["headline"]) == "Silent for 11m"
    assert _said(silent["sentence"]) == (
        "No writer has reported since then, so no writer expires. slow is last, 1m 6s of event "
        "time behind the first."
    )


def test_a_head_without_a_countdown_says_whether_who_holds_is_ever_dropped() -> None:
    head = _head(HELD, next_expiry_ms=None, holder_count=2, waiting_count=12)
    assert (
        _said(head["headline"]) == "Held by slow and 1 other for 38s dropped if others report"
    )
    assert _said(head["sentence"]).endswith("quick and 11 more wait.")


def test_a_writer_whose_silence_is_on_its_clock_has_it_once() -> None:
    silent = [
        _writer("a", NOW, 0, silent_ms=50_400, silent_for_ms=shown)
        for shown in (50_000, 3_000, None)
    ]
    tab = _writers_tab(silent, aggregation_timeout_ms=90_000)
    assert [one["silent"] for one in tab["rows"]] == ["", "50s", "50s"]


def test_times_a_browser_cannot_hold_are_text() -> None:
    logical = Times.of(follows_clock=False, example=3_820)
    assert TIMES.moment(NOW) == {"ms": NOW}
    assert TIMES.moment(END_OF_TIME) == {"text": "end of time"}
    assert logical.moment(3_820) == {"text": "3,820", "note": "logical"}
    assert (TIMES.distance(61_000), logical.distance(61_000)) == ("1m 1s", "61,000")
    assert rounded(25_410) == "25.4k"
    assert [plural(count, "event", show=rounded) for count in (1, 25_410)] == [
        "1 event",
        "25.4k events",
    ]


def test_heights_are_on_one_scale_or_between_the_least_and_the_greatest() -> None:
    assert [water_height(age) for age in (-5, 0, 60_000, 10**12)] == [100, 100, 66, 0]
    assert relative_heights([None, 10, 20]) == [None, 8, 92]
    assert BehindScale.of_two_days().place(172_800_000) == 0
    ticks = BehindScale.of([2**63], dated=False).ticks()
    assert [one["text"] for one in ticks] == ["1E", "1P", "1T", "1G", "1M", "1k", "1"]


def _held(samples: Iterable[tuple[int, str | None, int | None]], *, now_ms: int = NOW) -> Any:
    """Draw the strip of five minutes; a sample is its moment, who held, and since when it stood."""
    holders = Holders()
    for at, who, stood_since_ms in samples:
        holders.add(at, who, stood_since_ms=stood_since_ms)
    grid = [NOW - 300_000, NOW]
    blocks = chart.held_by(holders, grid, now_ms=now_ms)
    return [(one["who"], one["x"], one["wide"], one["hue"] is None) for one in blocks]


def test_each_holder_is_a_block_until_the_next() -> None:
    watched: list[Any] = [(at, "a", at) for at in range(NOW - 304_000, NOW - 150_000, 2_000)]
    watched += [(at, None, at) for at in range(NOW - 150_000, NOW - 30_000, 2_000)]
    watched += [(at, "b", at) for at in range(NOW - 30_000, NOW, 2_000)]
    assert _held(watched) == [("a", 0, 50, False), ("b", 90, 10, False)]


def test_nobody_is_said_to_have_held_between_samples_of_a_page_that_nobody_looked_at() -> None:
    rare = [(at, "a", at - 500) for at in range(NOW - 90_000, NOW, 15_000)]
    assert _held([*rare, (NOW - 1_000, "a", NOW - 1_200)]) == [
        ("not watched, or longer ago than is kept", 0, 99.67, True),
        ("a", 99.67, 0.33, False),
    ]


def test_who_is_seen_to_hold_at_both_ends_of_a_stand_held_in_between() -> None:
    stood = NOW - 90_000
    ends = [(NOW - 60_000, "a", stood), (NOW - 30_000, "a", stood), (NOW, "b", NOW - 9_000)]
    assert _held(ends)[1:] == [("a", 80, 10, False), ("not watched", 90, 10, True)]


def test_the_last_block_ends_where_the_service_was_last_heard() -> None:
    before = [(at, "a", at) for at in range(NOW - 300_000, NOW - 29_000, 2_000)]
    assert _held(before) == [("a", 0, 90, False), ("not watched", 90, 10, True)]
    assert _held(before, now_ms=NOW - 27_000) == [("a", 0, 91, False)]


def _chart(
    grid: list[int],
    watermarks: History,
    fronts: Samples,
    stands: dict[str, Samples] | None = None,
    times: Times = TIMES,
) -> Any:
    """Draw the chart of a stream that nobody holds, at the end of a grid."""
    how: Any = {"now_ms": grid[-1], "holder": None, "tone": None, "times": times}
    return chart.chart_of(grid, watermarks, fronts, stands or {}, **how)


def _chart_of_fronts(samples: Iterable[tuple[int, int]]) -> Any:
    """Draw a watermark that stands at 70 s ago, below what was seen of how far writers noted."""
    watermarks, fronts = History(), Samples()
    watermarks.add(NOW - 70_000, NOW - 70_000)
    for at, noted in samples:
        fronts.add(at, noted, stayed=fronts.newest == noted)
    grid = list(range(NOW - 60_000, NOW + 1, 10_000))
    return _chart(grid, watermarks, fronts)


def test_how_far_writers_noted_is_not_drawn_where_nobody_saw_it() -> None:
    samples = [(at, NOW - 50_000) for at in range(NOW - 60_000, NOW - 38_000, 2_000)]
    samples += [(at, NOW - 11_000) for at in range(NOW - 10_000, NOW + 1, 2_000)]
    drawn = _chart_of_fronts(samples)
    assert drawn["lower"] == [0] * 7
    assert drawn["front"] == [20_000, 20_000, None, None, None, 59_000, 59_000]
    assert drawn["unseen"] == [None, None, 30_000, 40_000, 50_000, None, None]
    stalled = _chart_of_fronts([*samples[:11], (NOW, NOW - 35_000)])
    assert stalled["unseen"] == [None, None, 30_000, 35_000, 35_000, 35_000, None]


def test_what_is_the_same_before_and_after_nobody_watched_was_the_same_in_between() -> None:
    drawn = _chart_of_fronts([(NOW - 60_000, NOW - 50_000), (NOW - 1_000, NOW - 50_000)])
    assert (drawn["front"], drawn["unseen"]) == ([20_000] * 7, [None] * 7)


def _writer(name: str, stand: int | None, behind: int | None, **more: Any) -> WriterInfo:
    return writer_of(name, stand=stand, behind_ms=behind, **more)


def _race(writers: list[WriterInfo], total: int, watermark: int) -> Any:
    """Draw the race of writers, of which the first holds."""
    how: Any = {"holder": writers[0].writer, "tone": "red", "times": TIMES}
    return chart.race_of(writers, total, watermark=watermark, **how)


def test_the_race_shows_the_slowest_and_the_range_of_the_others() -> None:
    writers = [_writer(f"w{n:02}", NOW - 1_000 * (40 - n), 1_000 * (40 - n)) for n in range(41)]
    race = _race(writers, 100, NOW - 40_000)
    assert len(race["rows"]) == 14
    assert race["rows"][0]["x"] == race["water"]
    assert race["others"]["text"] == "86 others"


def test_the_watermark_of_a_later_moment_is_not_ahead_of_the_slowest() -> None:
    writers = [_writer("slow", NOW - 9_000, 9_000), _writer("fast", NOW, 0)]
    race = _race(writers, 2, NOW - 7_000)
    assert race["water"] == race["rows"][0]["x"]


SPLIT = [
    {"number": 0, "low": 0, "high": 1, "predecessors": [], "sealed_length": 10},
    {"number": 1, "low": 0, "high": 0.5, "predecessors": [0], "sealed_length": None},
    {"number": 2, "low": 0.5, "high": 1, "predecessors": [0], "sealed_length": None},
]
TAIL = {0: 10, 1: 8, 2: 4}
CONFIG = {
    "segments": 1,
    "log": "embedded",
    "max_segments": None,
    "scaling": "fixed",
    "aggregation_timeout_ms": None,
    "min_writers": 0,
    "mark_interval_ms": 0,
    "mark_resolution_ms": 0,
    "mark_retention_ms": None,
    "writer_retention_ms": None,
    "max_future_skew_ms": 1,
}


def _info(**given: Any) -> StreamInfo:
    """Describe a stream that was split."""
    fields = {
        "stream": "a/b",
        "stream_id": "1",
        "watermark": NOW,
        "created_ms": 0,
        "revision": 1,
        "config": CONFIG | given.pop("config", {}),
        "topology": {"revision": 1, "segments": given.pop("segments", SPLIT)},
        "tail": TAIL,
        "first_cut": {},
    }
    return StreamInfo.model_validate(fields | given)


def test_segments_lie_in_their_key_range_the_later_to_the_right() -> None:
    info = _info(first_cut={1: 2, 2: 0})
    places = [segments.ReaderPlace("a/g", 1, 4)]
    tab = segments.segments_tab(info, {1: 4, 2: 4}, places)
    shown = [(one["x"], one["y"], one["wide"], one["high"]) for one in tab["boxes"]]
    assert shown == [(0, 0, 50, 100), (50, 0, 50, 50), (50, 50, 50, 50)]
    assert [one["fill"] for one in tab["boxes"]] == [100, 50, 100]
    assert [one["text"] for one in tab["boxes"]] == [
        "0 · truncated",
        "1 · 8 events, 2 truncated",
        "2 · 4 events",
    ]
    assert tab["boxes"][1]["readers"] == [{"x": 50, "who": "a/g"}]


@pytest.mark.parametrize(
    ("lower", "readers", "position", "back"),
    [
        (
            NOW - 60_000,
            LAZY | {"fast": {"epoch": 2, "owned": {"a/b": {2: 4}}}},
            {1: 3, 2: 4},
            "lazy (5 events)",
        ),
        # Who has not finished a sealed segment keeps its successors back.
        (None, {"lazy": {"epoch": 1, "owned": {"a/b": {0: 4}}}}, {0: 4}, "lazy (6 events)"),
    ],
)
def test_who_keeps_the_window_back_is_named_with_what_is_to_be_read(
    lower: int | None, readers: Any, position: dict[int, int], back: str
) -> None:
    section = _section(group_of(readers, window_of(lower=lower, position=position)))
    sentence = _said(section["sentence"])
    assert sentence == f"The window rises once these have read on: {back}."
    if lower is not None:
        assert section["headline"] == "1m behind the watermark"
        assert section["behind"] == "5"
        assert [(one["who"], one["back"]) for one in section["segments"]] == [
            ("lazy", True),
            ("fast", False),
        ]


def test_a_chart_without_marks_begins_at_its_lines_and_cuts_what_no_browser_holds() -> None:
    stands = {"far": Samples(), "near": Samples()}
    stands["far"].add(0, 2**63 - 2)
    drawn = _chart([-1_000, 0], History(), Samples(), stands, LOGICAL)
    assert (drawn["base"], drawn["deep"]) == (str(2**63 - 2), [0, 0])
    stands["near"].add(0, 5)
    drawn = _chart([-1_000, 0], History(), Samples(), stands, LOGICAL)
    assert (drawn["base"], drawn["deep"]) == ("5", None)


@pytest.mark.parametrize(
    ("names", "total", "what"),
    [
        ("abc", 60, "3 live of 60 writers, slowest first"),
        ("abc", 3, "3 writers, slowest first"),
        ("", 0, "no writer yet"),
    ],
)
def test_a_caption_says_whether_all_live_writers_are_there(
    names: str, total: int, what: str
) -> None:
    writers = [_writer(name, NOW, 0) for name in names]
    assert _writers_tab(writers, total=total)["caption"] == what


def test_the_streams_of_a_group_come_farthest_behind_first() -> None:
    windows = [
        TimeWindowInfo.model_validate(window_of(stream=name, lower=lower, next_mark=mark))
        for name, lower, mark in [
            ("near", NOW - 1, MARK),
            ("far", NOW - 9, MARK),
            ("level", NOW - 99, None),
            ("before", None, MARK),
        ]
    ]
    streams = [one.stream for one in group.farthest_first(windows)]
    assert streams == ["before", "far", "near", "level"]
    assert group.more_of(0) is None
    assert (group.more_of(3) or "").startswith("3 more streams are not shown")


def test_what_a_reader_owns_of_streams_that_are_not_shown_is_no_nothing() -> None:
    owned = {"a/b": {1: 3, 2: 4}, "a/c": {0: 0}}
    shown = {"reader": "lazy", "epoch": 1, "segments": 3, "silent_ms": 0, "advanced_ms": None}
    details = details_of(group_of({"lazy": {"epoch": 1, "owned": owned}}), readers=[shown])
    (row,) = group.readers_of(details, {"a/b": _info()}, now_ms=NOW)
    assert row["behind"] == "at least 5"


def test_a_table_is_sorted_by_a_column_either_way_with_unknowns_last() -> None:
    by_size = {"size": len, "known": lambda one: None if one == "bb" else one}
    names = ["ccc", "a", "bb"]
    assert sorted_by(names, "size", by_size) == ["a", "bb", "ccc"]
    assert sorted_by(names, "-size", by_size) == ["ccc", "bb", "a"]
    assert sorted_by(names, "known", by_size) == ["a", "ccc", "bb"]
    assert sorted_by(names, "-known", by_size) == ["ccc", "a", "bb"]
    assert sorted_by(names, "nothing", by_size) == names


def test_streams_are_sorted_by_every_column_that_has_a_head() -> None:
    briefs = {
        "a/late": brief_of(stream="a/late", watermark=NOW - 9),
        "a/new": brief_of(stream="a/new", watermark=None, explained={"states": {}}),
        "a/on": brief_of(stream="a/on", watermark=NOW),
    }
    paces = {"a/late": Pace(), "a/new": Pace(), "a/on": Pace(marks_per_s=2.0)}
    trouble_first = ["a/new", "a/late", "a/on"]
    columns = overview.columns_of(trouble_first, briefs, paces, lambda _: [])
    wanted = {
        "-stream": ["a/on", "a/new", "a/late"],
        "-state": ["a/on", "a/late", "a/new"],
        "watermark": ["a/late", "a/on", "a/new"],
        "writers": ["a/new", "a/late", "a/on"],
        "readers": trouble_first,
        "-marks": ["a/on", "a/new", "a/late"],
    }
    assert {sort: sorted_by(trouble_first, sort, columns) for sort in wanted} == wanted
    script = (Path(overview.__file__).parents[1] / "static/overview.js").read_text()
    heads = re.findall(r'name: "(\w+)".*first:', script)
    assert set(heads) == set(columns)


def test_a_service_without_streams_teaches_by_commands_that_can_be_copied() -> None:
    empty = overview.empty_of(0, 0, wanted="", url="http://gauge:1")
    assert empty is not None
    assert empty["watermark"].startswith("A watermark is")
    assert len(empty["commands"]) == 3
    assert all(one.count("--url http://gauge:1") == 1 for one in empty["commands"])
    assert overview.empty_of(3, 0, wanted="x", url="") == {"text": "No stream fits 'x'."}


def test_a_rate_that_would_be_shown_as_none_is_blank() -> None:
    assert [per_second(rate) for rate in (0.0, 0.049, 0.05, 250.0)] == [
        "",
        "",
        "0.1/s",
        "250/s",
    ]
    assert _head(MOVING)["marks"] == ""


def test_the_scale_of_the_slowest_writers_begins_at_the_slowest() -> None:
    scale = BehindScale.of([40_000, 3_000], dated=True)
    assert 5 < scale.place(40_000) < 15
    assert [one["text"] for one in scale.ticks()] == ["10 s", "1 s"]
    far = [one["text"] for one in BehindScale.of([90 * 86_400_000], dated=True).ticks()]
    assert far == ["30 d", "1 d", "1 h", "1 m"]


def test_a_chart_has_a_text_for_those_who_do_not_see_it() -> None:
    assert _chart_of_fronts([(NOW, NOW - 11_000)])["text"] == (
        "Event time over the last 1m: the watermark stayed at 2027-01-15T07:58:50.000Z, "
        "1m 10s before now; writers noted times up to 59s later."
    )
    empty = _chart([0, 300_000], History(), Samples(), {}, LOGICAL)
    assert empty["text"] == "Event time over the last 5m: no mark yet."


def test_a_table_shows_versions_in_place_of_positions() -> None:
    partition: dict[str, Any] = {"number": 0, "low": None, "high": None, "predecessors": []}
    info = _info(
        segments=[partition | {"sealed_length": None}],
        tail=None,
        first_cut=None,
        version=32,
        config={"log": "external", "table": "s3://lake/hourly"},
    )
    assert headline.notes_of(info, [])[0] == "table s3://lake/hourly, version 32"
    row = _row(brief_of(log="external", table="s3://lake/hourly"))
    assert row["table"] == "table s3://lake/hourly, no version yet"
    mark = MarkInfo(revision=2, lower=NOW, upper=NOW, cut={0: 33}, final=False)
    assert tabs.marks_tab([mark], TIMES, info.config)["rows"][0]["cut"] == "version 32"
    tab = segments.segments_tab(info, {0: 33}, [])
    assert [one["text"] for one in tab["lanes"]] == ["up to version 32"]
    assert info.config.version_before({0: 0}) is None


def test_a_setting_that_differs_from_its_default_says_so() -> None:
    settings = {one["name"]: one for one in tabs.settings_tab(_info(), [])["rows"]}
    assert (settings["segments"]["value"], settings["segments"]["default"]) == ("1", "4")
    timeout = settings["aggregation_timeout_ms"]
    assert (timeout["value"], timeout["default"]) == ("no limit", "1m")
    for name in ("log", "scaling", "retention", "hold_limit_ms", "min_writers"):
        assert settings[name]["default"] is None


def test_groups_are_listed_farthest_behind_first_and_found_by_their_streams() -> None:
    listed = [
        group_of(LAZY, window_of(lower=NOW - behind_ms), group=name, streams=streams)
        for name, behind_ms, streams in [
            ("a/near", 1_000, ["a/b"]),
            ("a/far", 90_000, ["a/b", "a/c", "a/d", "a/e"]),
        ]
    ]
    rows = [groups.row_of(one) for one in groups.entries_of(listed, {}, "")]
    assert [(one["group"], one["text"], one["tone"]) for one in rows] == [
        ("a/far", "1m 30s behind", "amber"),
        ("a/near", "1s behind", "grey"),
    ]
    assert (rows[0]["streams"], rows[0]["more"]) == (["a/b", "a/c", "a/d"], "and 1 other")
    assert [one.listed.group for one in groups.entries_of(listed, {}, "A/E")] == ["a/far"]
    assert "No reader group yet" in (groups.empty_of(0, [], wanted="") or "")
