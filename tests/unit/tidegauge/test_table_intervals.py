"""The work list of real Delta and Iceberg tables, by what their libraries write."""

import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from random import Random
from threading import get_ident

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.written_tables import BEGIN, HOUR, Delta, Iceberg, Written, cursor_at, rows
from tidegauge.intervals import Interval
from tidegauge.tables import (
    GoneError,
    WorkList,
    complete_until,
    delta,
    note,
)
from tidegauge.tables.columns import read_times


@pytest.fixture(params=["delta", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Written]:
    if request.param == "delta":
        yield Delta(tmp_path)
        return
    iceberg = Iceberg(tmp_path)
    yield iceberg
    iceberg.catalog.close()


@pytest.fixture
def iceberg(tmp_path: Path) -> Iterator[Iceberg]:
    table = Iceberg(tmp_path)
    yield table
    table.catalog.close()


def starts(found: list[Interval]) -> list[int]:
    return [(one.start - BEGIN) // HOUR for one in found]


def test_a_field_of_a_column_is_read_where_the_format_notes_no_bounds(table: Written) -> None:
    table.append(BEGIN, until=BEGIN + HOUR, column="window.start")
    first = table.look(event_time=None)
    table.append(BEGIN + 9, until=BEGIN + HOUR, column="window.start")
    assert starts(table.look(first.cursor, event_time="window.start").again) == [0]
    with pytest.raises(ValueError, match=r"event_time='t', but the notes of .* 'window.start'"):
        table.look()


def test_a_column_is_found_in_any_case_as_an_engine_does(table: Written) -> None:
    table.append(BEGIN, until=BEGIN + HOUR, column="WINDOW.Start")
    cursors = {
        table.look(event_time=name).cursor
        for name in (None, "window.start", "WINDOW.Start", "Window.START")
    }
    (cursor,) = cursors
    # Where the notes that name it are gone, the cursor has it.
    for _ in range(21):
        table.append(BEGIN + 9 * HOUR, until=BEGIN + HOUR)
    assert table.look(cursor, event_time=None).new == []


def test_what_a_user_gives_wrong_is_named(table: Written) -> None:
    table.append(BEGIN, until=BEGIN + HOUR)
    for how, told in {
        "x": "event_time='x' is no column",
        "n": "is of type (long|bigint)",
        "window": "is of type struct",
        None: "do not say of which column they are; pass event_time=",
    }.items():
        with pytest.raises(ValueError, match=told):
            table.look(event_time=how)
    cursor = table.look(by="1 day").cursor
    with pytest.raises(ValueError, match=r"'t', not for column 'window.start'; start .*-05T00"):
        table.look(cursor, by="1 day", event_time="window.start")
    with pytest.raises(ValueError, match=r"since='\[1' is no cursor of a table"):
        table.look("[1")
    # Of a former version, which did not say of what it is.
    with pytest.raises(ValueError, match="pass cursor of a former call, or none and start="):
        table.look(f'[1, {BEGIN}, "id"]')
    with pytest.raises(GoneError, match="was created again; begin without the cursor"):
        table.look(cursor_at(1, 1, "other"))
    with pytest.raises(ValueError, match="is not a time zone here"):
        table.look(zone="Paris")


def brute(table: Written, version: int, start: int) -> list[tuple[int, int]]:
    return [row for row in table.times(version) if start <= row[0] < start + HOUR]


@pytest.mark.parametrize("seed", range(3))
def test_hours_that_differ_are_named_in_random_histories(table: Written, seed: int) -> None:
    random, until, looks, numbers = Random(seed), BEGIN, list[WorkList](), list[int]()
    for _ in range(8):
        kind = random.choice(["rows", "rows", "delete", "more"])
        if kind == "delete" and numbers:
            table.delete(random.sample(numbers, min(2, len(numbers))))
        elif kind == "more" and isinstance(table, Iceberg) and looks:
            table.roll_back(random.choice(looks).version or 0)
        elif kind == "more" and isinstance(table, Delta) and looks:
            table.table.optimize.compact()
        else:
            late = [until - random.randrange(3 * HOUR)] if random.random() < 0.3 else []
            times = [until + random.randrange(3 * HOUR) for _ in range(2)]
            until += random.choice([0, HOUR // 2, HOUR, 2 * HOUR])
            numbers += table.append(*times, *late, until=until)
        found = table.look()
        assert found.until == complete_until(table.name, **table.how)
        looks += [found] if found.until is not None else []
    last = looks[-1]
    for old in looks[:-1]:
        now, edge = table.look(old.cursor), min(old.until or 0, last.until or 0)
        if now.until is None:
            continue
        named = {one.start for one in now.again}
        for start in range(BEGIN - 3 * HOUR, edge - HOUR + 1, HOUR):
            rows = [brute(table, at or 0, start) for at in (old.version, now.version)]
            assert start in named or rows[0] == rows[1]
        stop = (now.until // HOUR) * HOUR
        expected = list(range((old.until or 0) // HOUR * HOUR, stop, HOUR))
        assert [one.start for one in now.new] == expected


def test_snapshots_that_expired_are_missed_only_if_they_are_behind_the_cursor(
    iceberg: Iceberg,
) -> None:
    for at in range(4):
        iceberg.append(BEGIN + at * HOUR, until=BEGIN + at * HOUR)
    name = str(iceberg.table.metadata.table_uuid)
    cursors = [cursor_at(at, BEGIN, name) for at in (1, 2)]
    iceberg.expire(1, 2)
    assert starts(iceberg.look(cursors[1]).new) == [0, 1, 2]
    with pytest.raises(GoneError, match="does not keep the snapshots behind version 1"):
        iceberg.look(cursors[0])


def test_a_number_that_a_branch_took_is_no_gap_while_it_is_kept(iceberg: Iceberg) -> None:
    iceberg.append(BEGIN, until=BEGIN + HOUR)
    first = iceberg.look()
    table = iceberg.table
    table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, "b").commit()
    iceberg.table.append(rows([9], [BEGIN]), branch="b")
    iceberg.append(BEGIN + HOUR, until=BEGIN + 2 * HOUR)
    iceberg.expire(1)
    found = iceberg.look(first.cursor)
    assert (found.version, starts(found.new), found.again) == (3, [1], [])
    iceberg.table.manage_snapshots().remove_branch("b").commit()
    iceberg.expire(2)
    with pytest.raises(GoneError, match="does not keep the snapshots behind version 1"):
        iceberg.look(first.cursor)


def test_a_log_that_was_cleaned_is_missed_only_behind_the_cursor(tmp_path: Path) -> None:
    table = Delta(tmp_path)
    for at in range(4):
        numbers = table.append(BEGIN + at * HOUR, BEGIN, until=BEGIN + at * HOUR)
    table.delete(numbers)
    cursors = [cursor_at(at, BEGIN + HOUR, str(table.table.metadata().id)) for at in (1, 2)]
    table.table.create_checkpoint()
    for version in range(3):
        (tmp_path / "table" / "_delta_log" / f"{version:020d}.json").unlink()
    found = table.look(cursors[1])
    assert (starts(found.new), starts(found.again)) == ([1, 2], [0])
    with pytest.raises(GoneError, match="does not keep the commits behind version 1"):
        table.look(cursors[0])


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        (pa.timestamp("us"), {}),
        (pa.date32(), {}),
        (pa.timestamp("us", "UTC"), {"partition_by": "t"}),
        (pa.date32(), {"partition_by": "t"}),
        (
            pa.timestamp("us", "UTC"),
            {"configuration": {"delta.dataSkippingNumIndexedCols": "0"}},
        ),
    ],
)
def test_columns_of_all_kinds_are_read(
    tmp_path: Path, kind: pa.DataType, how: dict[str, object]
) -> None:
    table, day = Delta(tmp_path, **how), 24 * HOUR
    said = note(BEGIN + day, job="j")
    table.write(rows([1], [BEGIN], kind), said)
    first = table.look(by="1 day")
    table.write(rows([2, 3, 4], [BEGIN, BEGIN + day, None], kind), said)
    assert [(one.start, one.rows) for one in table.look(first.cursor, by="1 day").again] == [
        (BEGIN, 1)
    ]
    table.delete([2])
    assert [one.start for one in table.look(first.cursor, by="1 day").again] == [BEGIN]
    if kind != pa.timestamp("us", "UTC"):
        with pytest.raises(ValueError, match="needs times in UTC, and event_time= is of type"):
            table.look(zone="Europe/Paris")


def test_a_file_is_read_in_the_thread_of_who_asks() -> None:
    """A thread of Arrow's that holds a file of Python's may abort the process as that ends."""
    threads = set[int]()

    class File(BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            threads.add(get_ident())
            return super().read(size)

    with BytesIO() as written:
        parquet.write_table(rows([1, 2], [BEGIN, BEGIN + HOUR]), written)
        assert read_times(File(written.getvalue()), ["window", "start"], BEGIN + 1) == [BEGIN]
    assert threads == {get_ident()}


def test_vacuum_lists_nothing_and_a_file_that_is_needed_and_gone_is_an_error(
    tmp_path: Path,
) -> None:
    table = Delta(tmp_path)
    numbers = table.append(BEGIN, BEGIN + HOUR, until=BEGIN + 2 * HOUR)
    first = table.look()
    for _ in range(2):
        table.append(BEGIN, until=BEGIN + 2 * HOUR)
    table.delete(numbers)
    late = table.look(first.cursor)
    table.table.optimize.compact()
    table.table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    behind = table.look(late.cursor)
    assert (behind.new, behind.again) == ([], [])
    with pytest.raises(GoneError, match=r"keeps .* no more"):
        table.look(first.cursor)


def test_no_commit_below_the_cursor_is_requested_but_the_newest_20_and_none_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, requested = Delta(tmp_path), list[int]()
    read = delta.DeltaLog._actions

    def request(log: delta.DeltaLog, version: int) -> object:
        requested.append(version)
        return read(log, version)

    monkeypatch.setattr(delta.DeltaLog, "_actions", request)
    for at in range(30):
        table.append(BEGIN + at * HOUR, until=BEGIN + at * HOUR)
    first = table.look()
    for _ in range(3):
        table.append(BEGIN + 40 * HOUR)
    requested.clear()
    table.look(first.cursor)
    assert sorted(requested) == list(range(13, 33))
    for _ in range(22):
        table.append(BEGIN + 40 * HOUR)
    requested.clear()
    assert table.look(first.cursor).until == first.until
    assert sorted(requested) == list(range(29, 55))


def test_who_asks_complete_until_loads_nothing_of_it(tmp_path: Path) -> None:
    table = Delta(tmp_path)
    table.append(BEGIN, until=BEGIN)
    ask = f"""
import sys
from tidegauge.tables import complete_until
complete_until({table.name!r})
print(*sys.modules)
"""
    loaded = subprocess.run(
        [sys.executable, "-c", ask], capture_output=True, text=True, check=True
    ).stdout.split()
    ours = {f"tidegauge.{name}" for name in ("intervals", "local_days", "tables.work")}
    ours |= {f"tidegauge.tables.{name}" for name in ("columns", "delta_files", "listing")}
    assert all(map(find_spec, ours))
    assert "tidegauge.tables.delta" in loaded
    assert not ours & set(loaded)
    assert "pyarrow.parquet" not in loaded


def test_a_table_with_renamed_columns_is_read_by_the_names_in_its_files(tmp_path: Path) -> None:
    """Written as engines with column mapping do, which delta-rs does not."""
    table = Delta(tmp_path)
    said = note(BEGIN + HOUR, job="j")
    table.write(rows([1], [BEGIN]).rename_columns(["col-1", "n", "window"]), said)
    entry = tmp_path / "table" / "_delta_log" / f"{0:020d}.json"
    mapped = entry.read_text().replace(
        r"\"name\":\"col-1\",\"type\":\"timestamp\",\"nullable\":true,\"metadata\":{}",
        r"\"name\":\"t\",\"type\":\"timestamp\",\"nullable\":true,\"metadata\":"
        r"{\"delta.columnMapping.physicalName\":\"col-1\"}",
    )
    assert "physicalName" in mapped
    entry.write_text(mapped)
    first = table.look()
    assert starts(first.new) == [0]
    late = mapped.splitlines()
    add = next(line for line in late if line.startswith('{"add"'))
    entry.with_name(f"{1:020d}.json").write_text(add)
    assert starts(table.look(first.cursor).again) == [0]


def test_a_rollback_takes_rows_back_which_are_in_no_snapshot(iceberg: Iceberg) -> None:
    iceberg.append(BEGIN, until=BEGIN + 2 * HOUR)
    iceberg.append(BEGIN + HOUR, until=BEGIN + 2 * HOUR)
    first = iceberg.look()
    iceberg.roll_back(1)
    assert iceberg.look(first.cursor).cursor == first.cursor
    iceberg.append(BEGIN + 3 * HOUR, until=BEGIN + 2 * HOUR)
    found = iceberg.look(first.cursor)
    assert (found.new, starts(found.again)) == ([], [1])
