"""What a source of ticks knows of a table: its marks, and what stops it."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from spark_source.errors import (
    InvalidOptionError,
    ReplacedTableError,
    UnfollowedTableError,
    WrongCheckpointError,
)
from spark_source.following import followed
from spark_source.following.followed import FollowedTable, Service, TableWatch
from spark_source.following.tick_source import TickReader
from tests.unit.spark_source.test_table_ticks import delta
from tests.written_tables import Iceberg
from tidegauge.tables import TwoJobsError, note
from tidegauge.tables.delta import DeltaLog


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a table be looked at whenever it is asked."""
    monkeypatch.setattr(followed, "_PAUSE_S", 0)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "table")


def append(path: str, until: int | None, *, rows: int = 1, **more: Any) -> None:
    said = (
        {}
        if until is None
        else note(until, job=more.pop("job", "hourly"), query=more.pop("query", None))
    )
    write_deltalake(
        path,
        pa.table({"at": pa.array(range(rows), pa.int64())}),
        mode=more.pop("mode", "append"),
        commit_properties=CommitProperties(custom_metadata=said),
    )


def follows(path: str) -> FollowedTable:
    return FollowedTable(path, checkpoint="/checkpoint")


def watched(path: str) -> TableWatch:
    table = follows(path)
    return table.watch(table.first())


def passed(watch: TableWatch, version: int) -> int | None:
    found = watch.passed({0: version + 1})
    return None if found is None else found.lower


def test_a_position_covers_the_newest_note_below_it_and_commits_without_rows_behind_it(
    path: str,
) -> None:
    for until, rows in ((10, 1), (None, 1), (20, 0), (30, 1)):
        append(path, until, rows=rows)
    watch = watched(path)
    assert [passed(watch, version) for version in range(4)] == [10, 20, 20, 30]
    append(path, 40, rows=0)
    assert passed(watch, 3) == 40


def test_only_the_newest_commits_are_read(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for until in range(60):
        append(path, until)
    read = set[int]()
    read_commit = DeltaLog._read

    def counts(self: DeltaLog, version: int) -> Any:
        read.add(version)
        return read_commit(self, version)

    monkeypatch.setattr(DeltaLog, "_read", counts)
    watch = watched(path)
    assert passed(watch, 5) == 5
    assert len(read) <= 20 + 3
    read.clear()
    append(path, 60)
    assert passed(watch, 60) == 60
    assert read <= set(range(40, 61))


def test_the_note_of_the_first_version_is_told_by_a_query_that_drains(
    path: str, tmp_path: Path
) -> None:
    append(path, 10)
    checkpoint = tmp_path / "checkpoint"
    reader = TickReader(str(checkpoint), FollowedTable(path, checkpoint=str(checkpoint)))
    reader.prepareForTriggerAvailableNow()
    first = reader.latestOffset(reader.initialOffset(), None)  # type: ignore[arg-type]
    (checkpoint / "offsets").mkdir(parents=True)

    def plan(start: dict[str, Any], number: int) -> dict[str, Any]:
        ends = start, delta(1, table=start["table_id"])
        lines = ["v1", '{"batchWatermarkMs":0}', *map(json.dumps, ends)]
        (checkpoint / "offsets" / str(number)).write_text("\n".join(lines))
        reader.commit(start)
        return reader.latestOffset(start, None)  # type: ignore[arg-type]

    second = plan(first, 0)
    assert second["bound"] == 10
    append(path, 20, rows=0)
    assert plan(second, 1) == second


def test_notes_that_were_ended_stop_it_until_somebody_took_over(path: str) -> None:
    append(path, 10)
    append(path, None)
    watch = watched(path)
    DeltaTable(path).restore(0)
    for asked in (lambda: passed(watch, 1), lambda: watched(path)):
        with pytest.raises(UnfollowedTableError, match=r"notes were ended by a restore.*take"):
            asked()
    append(path, 15)
    assert passed(watched(path), 3) == 15


def test_a_query_that_has_come_further_than_the_notes_that_began_again_is_stopped(
    path: str,
) -> None:
    append(path, 10)
    watch = watched(path)
    assert passed(watch, 0) == 10
    append(path, None, mode="overwrite")
    append(path, 5)
    with pytest.raises(UnfollowedTableError, match=r"taken its time back.*new checkpoint"):
        passed(watch, 2)


def test_a_note_that_is_less_takes_back_nothing_that_another_job_has_said(path: str) -> None:
    """Of two jobs that note time to one stream, one may be late to commit what it has asked."""
    append(path, 10, query="a")
    watch = watched(path)
    assert passed(watch, 0) == 10
    append(path, 5, query="b")
    assert passed(watch, 1) == 10
    append(path, 12, query="b")
    assert passed(watch, 2) == 12


def test_jobs_that_declare_by_turns_stop_it(path: str) -> None:
    for job in "aba":
        append(path, 10, job=job)
    with pytest.raises(TwoJobsError):
        watched(path)


def test_a_table_that_is_made_again_stops_it(path: str, tmp_path: Path) -> None:
    append(path, 10)
    watch, before = watched(path), follows(path).first()
    Path(path).rename(tmp_path / "old")
    append(path, 10)
    with pytest.raises(ReplacedTableError, match="start the query with a new checkpoint"):
        passed(watch, 0)
    with pytest.raises(ReplacedTableError):
        follows(path).planned(before, [before.to_json(), delta(1, table=before.table_id)])


def test_marks_of_commits_and_those_of_a_stream_are_not_exchanged(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(path, 10)
    monkeypatch.setattr(Service, "stream_id", lambda _: "abc")
    service = Service(url="http://127.0.0.1:1", stream="lake/hourly")
    now = FollowedTable(path, checkpoint="/c", service=service)
    told = "those of the table's commits, and now of stream abc; follow those again"
    with pytest.raises(WrongCheckpointError, match=told):
        now.watch(follows(path).first())
    with pytest.raises(WrongCheckpointError, match="of stream abc, and now of the table's"):
        follows(path).watch(now.first())


def test_one_line_says_why_there_is_no_watermark(
    path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    append(path, None)
    silent, waiting = watched(path), watched(path)
    monkeypatch.setattr(followed, "_SILENT_S", 0)
    assert passed(silent, 0) is None
    append(path, 10)
    assert waiting.passed(None) is None
    assert (passed(silent, 0), waiting.passed(None)) == (None, None)
    said, other = [one.message for one in caplog.records if one.levelno == logging.WARNING]
    assert said.startswith(f"table {path} gives no watermark: no commit of it says")
    assert other.endswith("what is read of it does not reach its first mark yet")


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A catalog with a table whose oldest snapshot has expired."""
    lake = Iceberg(tmp_path)
    for _ in range(2):
        lake.append(1)
    lake.expire(1)
    yield lake.how["catalog"]
    lake.catalog.close()


def test_a_fresh_start_on_an_iceberg_table_without_its_first_snapshots_is_refused(
    catalog: dict[str, str],
) -> None:
    def check(*, is_fresh: bool, has_start: bool = False) -> None:
        table = FollowedTable(
            "lake.hourly", checkpoint="/c", catalog=catalog, has_start=has_start
        )
        table.check(is_fresh=is_fresh)

    with pytest.raises(InvalidOptionError, match="load with the option stream-from-timestamp"):
        check(is_fresh=True)
    check(is_fresh=True, has_start=True)
    check(is_fresh=False)
