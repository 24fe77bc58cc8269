"""Lists on wide, narrow and very narrow terminals, and in pipes."""

from io import StringIO

import pytest
from rich.console import Console

from tidegauge.wire.writers import WriterInfo
from tidegauge_cli.tables import table_of_writers

WRITERS = [
    WriterInfo(
        writer="gateway-7",
        state="behind",
        incarnation=2,
        time=1_704_110_400_000,
        position={0: 40, 1: 12},
        behind_ms=3_600_000,
        silent_ms=13_000,
        holding_ms=13_000,
        expires_in_ms=47_000,
    ),
    WriterInfo(
        writer="new",
        state="joining",
        incarnation=1,
        time=None,
        position={},
        behind_ms=None,
        silent_ms=250,
        holding_ms=None,
        expires_in_ms=None,
    ),
]


def _shown(width: int) -> list[str]:
    written = StringIO()
    Console(file=written, width=width).print(table_of_writers(WRITERS))
    return [line.rstrip() for line in written.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("width", "headers"),
    [
        (120, "writer state incarnation noted behind silent expires position"),
        (90, "writer state incarnation noted behind silent expires"),
        (76, "writer state noted behind silent expires"),
        (68, "writer state noted behind expires"),
        (60, "writer state noted expires"),
        (50, "writer state noted"),
    ],
)
def test_the_least_columns_go_first_and_no_cell_is_cut(width: int, headers: str) -> None:
    first, gateway, new = _shown(width)
    assert first.split() == headers.split()
    assert gateway.split()[:2] == ["gateway-7", "behind"]
    assert "2024-01-01T12:00:00.000Z" in gateway
    assert "none yet" in new


def test_where_no_table_fits_each_writer_is_a_block() -> None:
    assert _shown(40) == [
        "gateway-7",
        "  state        behind",
        "  incarnation  2",
        "  noted        2024-01-01T12:00:00.000Z",
        "  behind       1h",
        "  silent       13s",
        "  expires      47s",
        "  position     0:40,1:12",
        "new",
        "  state        joining",
        "  incarnation  1",
        "  noted        none yet",
        "  silent       250ms",
    ]


def test_a_pipe_gets_every_column_however_wide() -> None:
    noon = "2024-01-01T12:00:00.000Z"
    assert list(table_of_writers(WRITERS).lines(with_headers=False)) == [
        f"gateway-7  behind   2            {noon}  1h      13s     47s      0:40,1:12",
        "new        joining  1            none yet                          250ms",
    ]
