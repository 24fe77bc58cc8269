"""The work list of a batch job over a table; see the package."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

from tidegauge.extras import needs_extra
from tidegauge.intervals import GoneError, Tiling, other_cursor
from tidegauge.tables.asking import time_of
from tidegauge.tables.history import COMMITS_READ, Commit, check_jobs, commit_in_effect
from tidegauge.tables.logs import TableLog
from tidegauge.tables.service import ServiceMarks
from tidegauge.tables.work import Cursor, WorkList, until_now, work_list

if TYPE_CHECKING:  # an extra
    from tidegauge.tables.delta_files import DeltaFiles
    from tidegauge.tables.iceberg_files import IcebergFiles

_TIMES = {"timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns", "timestamp_ntz", "date"}


def intervals(
    table: str,
    *,
    since: str | None = None,
    event_time: str | None = None,
    by: str = "1 hour",
    zone: str | None = None,
    start: int | str | datetime | None = None,
    storage_options: Mapping[str, str] | None = None,
    catalog: Mapping[str, str] | None = None,
    url: str | None = None,
    stream: str | None = None,
    token: str | None = None,
) -> WorkList:
    """List which intervals of a table are complete now, and which have changed since.

    Parameters
    ----------
    table, storage_options, catalog, url, stream, token
        See `complete_until`. With ``url`` the time is that of the newest mark that the table's
        newest version covers.
    since
        ``cursor`` of the call before, which had the same column, ``by`` and ``zone``; None at the
        first one.
    event_time
        The column, or a field of one such as ``window.start``; by default the one that the notes
        name.
    by
        How long intervals are: ``1 hour``, ``15m``, ``7 days``. They count from 1970 on.
    zone
        A time zone such as ``Europe/Paris``: intervals lie within its local days.
    start
        No interval that begins before it is listed; in ms, RFC 3339 text or an aware datetime.

    Raises
    ------
    GoneError
        If commits behind the cursor are not kept, or the table was made again.
    TooManyIntervalsError
        If there are more than 100 000.
    ValueError
        If an argument is not as described above, the column is not the one of the notes, or the
        cursor is of other intervals.

    Examples
    --------
    ::

        work = intervals("s3://lake/hourly", since=cursor, by="1 hour")
        for interval in work.new + work.again:
            run(interval.start, interval.end, version=work.version)
        cursor = work.cursor
    """
    tiling = Tiling.parse(by, zone)
    first = None if start is None else tiling.ceil(time_of(start))
    before = None if since is None else Cursor.parse(since)
    if before is not None:
        tiling.check_cursor(before.tiling, before.until)
    files = _open_files(table, storage_options, catalog)
    log = files.log
    if before is not None and before.table_id != log.table_id:
        raise GoneError(table, "was created again")
    # An entry of a log is a request to a store: none below the cursor is read but the newest.
    behind = 0 if before is None else files.read_behind(before.version)
    newest = next(log.newest_first(), None)
    if newest is None:
        return WorkList(None, None, cursor=since)
    most = None if before is None else max(COMMITS_READ, behind + 1)
    check_jobs(table, log.newest_first())
    until = _until(log, before, most)
    if url is not None:
        with closing(ServiceMarks(url, stream, token)) as marks:
            until = marks.until_at(newest.version)
    commits = list(islice(log.newest_first(), most or COMMITS_READ))
    column = files.choose(_column(table, event_time, commits, before))
    _check_kind(files.kind, zone)
    if before is not None and before.column != column:
        then, now = (f"column {name!r}" for name in (before.column, column))
        raise other_cursor(then, now, tiling.floor(before.until))
    if until is None:  # nothing is done, and nothing is forgotten
        return WorkList(newest.version, None, cursor=since)
    reached = Cursor(newest.version, until, log.table_id, tiling, column)
    return work_list(table, files, files.changes(), now=reached, before=before, first=first)


def _open_files(
    table: str, storage_options: Mapping[str, str] | None, catalog: Mapping[str, str] | None
) -> "DeltaFiles | IcebergFiles":
    with needs_extra("reading a table", extra="tables"):
        if catalog is not None:
            from tidegauge.tables.iceberg_files import IcebergFiles  # noqa: PLC0415 (an extra)

            return IcebergFiles(table, catalog)
        from tidegauge.tables.delta_files import DeltaFiles  # noqa: PLC0415 (the same)

        return DeltaFiles(table, storage_options)


def _until(log: TableLog, before: Cursor | None, most: int | None) -> int | None:
    if before is not None:
        return until_now(list(islice(log.newest_first(), most)), before)
    commit = commit_in_effect(log.newest_first())
    return None if commit is None else commit.time


def _column(
    table: str, wanted: str | None, commits: Sequence[Commit], before: Cursor | None
) -> str:
    """Choose the column of event time: the one of the newest note that names one, or the cursor's."""
    notes = (commit.note for commit in commits if commit.note is not None)
    noted = next((note.column for note in notes if note.column is not None), None)
    if wanted is not None and noted is not None and wanted.lower() != noted.lower():
        msg = f"event_time={wanted!r}, but the notes of {table} are of {noted!r}; leave it out"
        raise ValueError(msg)
    # As Spark does, notes and tables go without regard to case; see `choose`.
    if column := wanted or noted or (before and before.column):
        return column
    msg = f"the notes of {table} do not say of which column they are; pass event_time="
    raise ValueError(msg)


def _check_kind(kind: str, zone: str | None) -> None:
    if kind not in _TIMES:
        msg = f"event_time= is of type {kind}; name a column of timestamps or dates"
        raise ValueError(msg)
    is_local = kind in ("timestamp_ntz", "date")
    if zone is not None and is_local:
        msg = f"zone={zone!r} needs times in UTC, and event_time= is of type {kind}; leave zone= out"
        raise ValueError(msg)
