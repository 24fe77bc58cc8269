"""Lists on wide, narrow and very narrow terminals, and in pipes."""

import re
from io import StringIO

import pytest
from rich.console import Console

from tests.listed_streams import NOW, brief_of, group_of, window_of, writer_of
from tidegauge.wire.streams import BriefStreamList, HoldInfo
from tidegauge_cli.holding import table_of_holds
from tidegauge_cli.listing import Listing, print_line
from tidegauge_cli.tables import judge, table_of_groups, table_of_streams, table_of_writers

WRITERS = [
    writer_of(
        "gateway-7",
        state="behind",
        incarnation=2,
        time=1_704_110_400_000,
        position={0: 40, 1: 12},
        behind_ms=3_600_000,
        silent_ms=13_000,
        stand=1_704_110_400_000,
        stand_by="noted",
        silent_for_ms=13_000,
        standing_for_ms=540_000,
        clock="standing_still",
        expires_in_ms=60_000,
        grace=True,
    ),
    writer_of(
        "new",
        state="joining",
        position={},
        silent_ms=250,
        stand=1_704_110_400_000,
        stand_by="registered",
    ),
]


def _shown(width: int, listing: Listing | None = None) -> list[str]:
    written = StringIO()
    Console(file=written, width=width).print(listing or table_of_writers(WRITERS))
    return [line.rstrip() for line in written.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("width", "headers"),
    [
        (130, "writer state incarnation stands behind silent clock expires remarks position"),
        (118, "writer state incarnation stands behind silent clock expires remarks"),
        (100, "writer state incarnation stands behind silent clock expires"),
        (88, "writer state stands behind silent clock expires"),
        (78, "writer state stands behind clock expires"),
        (68, "writer state stands behind expires"),
        (60, "writer state stands expires"),
        (50, "writer state stands"),
    ],
)
def test_the_least_columns_go_first_and_no_cell_is_cut(width: int, headers: str) -> None:
    first, gateway, new = _shown(width)
    assert first.split() == headers.split()
    assert gateway.split()[:2] == ["gateway-7", "behind"]
    assert "2024-01-01T12:00:00.000Z" in gateway
    assert new.split()[:2] == ["new", "joining"]


def test_where_no_table_fits_each_writer_is_a_block() -> None:
    assert _shown(40) == [
        "gateway-7",
        "  state        behind",
        "  incarnation  2",
        "  stands       2024-01-01T12:00:00.000Z",
        "  behind       1h",
        "  silent       13s",
        "  clock        still 9m",
        "  expires      1m",
        "  position     0:40,1:12",
        "new",
        "  state        joining",
        "  incarnation  1",
        "  stands       2024-01-01T12:00:00.000Z",
        "  silent       250ms",
        "  remarks      start time, no grace",
    ]


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (
            80,
            [
                "stream         watermark             behind  state",
                "shop/orders    2027-01-15T07:59:40Z  20s     held by gateway-7-of-warehouse-12",
                "                                             and 2 more for 53s",
                "shop/payments  2027-01-15T07:59:40Z  20s     moving",
            ],
        ),
        (
            40,
            [
                "stream         state",
                "shop/orders    held by",
                "               gateway-7-of-warehouse-12",
                "               and 2 more for 53s",
                "shop/payments  moving",
            ],
        ),
    ],
)
def test_the_state_of_a_stream_stays_longest_and_breaks_at_words(
    monkeypatch: pytest.MonkeyPatch, width: int, lines: list[str]
) -> None:
    monkeypatch.setattr("tidegauge_cli.tables.time.time", lambda: NOW / 1_000)
    holder = {"holder": "gateway-7-of-warehouse-12", "holder_count": 3}
    streams = [
        brief_of(stream="shop/orders", marked_ms=NOW - 53_000, explained=holder),
        brief_of(stream="shop/payments"),
    ]
    listed = judge(BriefStreamList(streams=streams, cursor=None, now_ms=NOW))
    shown = _shown(width, table_of_streams(listed))
    assert [re.sub(r"  +(marks|7) .*", "", line) for line in shown] == lines


def test_what_is_of_a_group_stands_in_its_first_line_alone() -> None:
    readers = {
        name: {"epoch": 1, "owned": {"a/b": {number: 0}}} for number, name in enumerate("xy")
    }
    group = group_of(readers, window_of(lower=NOW - 60_000), unassigned={"a/b": {7: 0}})
    rows = [[cell.plain for cell in row] for row in table_of_groups([group]).rows]
    assert rows == [["a/g", "a/b", "x", "1", "1", "1m"], ["a/g", "", "y", "1", "", ""]]


class _Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("width", [60, 80, 120])
def test_on_a_terminal_a_line_breaks_at_words_and_a_command_nowhere(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    terminal, sentence = _Terminal(), "The watermark has stood for 8h: " + "gateway-7 " * 30
    command = f"  tidegauge expire shop/orders {'gateway-7' * 20}"
    print_line(sentence, terminal)
    print_line(command, terminal)
    *lines, last = terminal.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert " ".join(lines).split() == sentence.split()
    assert last == command


def test_logical_times_of_holds_are_shown_whole() -> None:
    held = HoldInfo(
        since_ms=1_795_980_072_046,
        until_ms=1_795_980_132_046,
        began_ms=1_795_980_072_046,
        held_ms=60_000,
        watermark=-9_000_000_000_000_000_000,
        reached=None,
        writer="slow",
        others=2,
        silence_ms=0,
        reported=False,
        unheard_ms=0,
        end="silence",
    )
    (line,) = table_of_holds([held]).lines(with_headers=False)
    assert re.split(" {2,}", line) == [
        "11-29 19:21:12",
        "1m",
        "-9000000000000000000",
        "slow and 2 more",
        "silent; expired: silent",
    ]
