"""Asking a table until when it is complete; see the package."""

from collections.abc import Mapping
from contextlib import closing
from datetime import datetime, timedelta
from time import monotonic, sleep
from typing import Literal

from tidegauge.event_time import END_OF_TIME, check_span, parse_event_time, to_event_time
from tidegauge.tables.errors import IncompleteTableError
from tidegauge.tables.history import Commit, check_jobs, commit_in_effect, first_complete
from tidegauge.tables.logs import TableLog, open_log
from tidegauge.tables.notes import Note
from tidegauge.tables.service import ServiceMarks

_PAUSE_S = 0.5


def complete_until(
    table: str,
    *,
    storage_options: Mapping[str, str] | None = None,
    catalog: Mapping[str, str] | None = None,
    url: str | None = None,
    stream: str | None = None,
    token: str | None = None,
) -> int | None:
    """Find the time up to which the newest version of a table is complete.

    Parameters
    ----------
    table
        The address of a Delta table, or with ``catalog`` the name of an Iceberg table in it.
    storage_options
        As ``deltalake.DeltaTable`` takes them.
    catalog
        Properties as ``pyiceberg.catalog.load_catalog`` takes them.
    url, stream, token
        Of the service, to which the writers of the table note time.

    Returns
    -------
    int or None
        ms; the end of time (2**63 - 1) after the last row; None if nothing is known.

    Raises
    ------
    UnreadableTableError
        If there is no such table.
    TwoJobsError
        If two jobs declare its time by turns.
    InvalidNoteError
        If a note cannot be read.
    ValueError
        If the offsets of the stream cannot be versions of a table, or ``url`` comes without one.

    Examples
    --------
    >>> complete_until("s3://lake/hourly")  # doctest: +SKIP
    1767618000000
    """
    if url is not None:
        with closing(ServiceMarks(url, stream, token)) as marks:
            return marks.watermark()
    commit = _in_effect(open_log(table, storage_options=storage_options, catalog=catalog))
    return None if commit is None else commit.time


def newest_note(
    table: str,
    *,
    storage_options: Mapping[str, str] | None = None,
    catalog: Mapping[str, str] | None = None,
) -> Commit | None:
    """Find the commit whose note is valid for the newest version of a table.

    Parameters and errors are those of `complete_until`.
    """
    return _in_effect(open_log(table, storage_options=storage_options, catalog=catalog))


def first_note(
    table: str,
    time: int,
    *,
    storage_options: Mapping[str, str] | None = None,
    catalog: Mapping[str, str] | None = None,
) -> Commit | None:
    """Find the commit with which a table was complete until a time, ms; None if it is not.

    Parameters and errors are those of `version_at`.
    """
    log = open_log(table, storage_options=storage_options, catalog=catalog)
    return _first_complete(log, time)


def note(
    until: int | datetime | None,
    *,
    job: str,
    format: Literal["delta", "iceberg"] = "delta",  # noqa: A002 (as Spark's writers name it)
    final: bool = False,
    query: str | None = None,
    batch: int | None = None,
    late: int = 0,
    shared: bool = False,
    column: str | None = None,
) -> dict[str, str]:
    """Make the metadata of a commit that records how far its table is complete.

    Parameters
    ----------
    until
        You commit no row below it any more that is on time; in ms, or an aware datetime. The end
        of time, as `complete_until` returns it, is written as ``final``.
    job
        The name of the one job that declares the time of this table.
    format
        ``delta`` for ``CommitProperties(custom_metadata=…)`` of delta-rs, ``iceberg`` for
        ``snapshot_properties=…`` of pyiceberg.
    final
        Whether no row follows at all. It cannot be taken back: a table that has ended does not begin again.
    query, batch, late, shared, column
        See `Note`.

    Raises
    ------
    ValueError
        If the format is none of these.

    Examples
    --------
    >>> note(1767618000000, job="nightly", format="iceberg")
    {'tidegauge.until': '1767618000000', 'tidegauge.final': 'false', 'tidegauge.job': 'nightly', 'tidegauge.late': '0'}
    """
    time = None if until is None else to_event_time(until)
    is_end = time == END_OF_TIME
    made = Note(
        until=None if is_end else time,
        job=job,
        final=final or is_end,
        query=query,
        batch=batch,
        late=late,
        shared=shared,
        column=column,
    )
    if format == "iceberg":
        return made.to_summary()
    if format == "delta":
        return {"userMetadata": made.to_metadata()}
    msg = f"format={format!r} is neither 'delta' nor 'iceberg'"
    raise ValueError(msg)


def version_at(
    table: str,
    time: int | str | datetime,
    *,
    storage_options: Mapping[str, str] | None = None,
    catalog: Mapping[str, str] | None = None,
    url: str | None = None,
    stream: str | None = None,
    token: str | None = None,
) -> int | None:
    """Find the first version of a table that is complete up to a time.

    Parameters
    ----------
    table, storage_options, catalog, url, stream, token
        See `complete_until`.
    time
        In ms, RFC 3339 text or an aware datetime; what is finer than a millisecond is rounded up.

    Returns
    -------
    int or None
        The number of a Delta version, or the sequence number of an Iceberg snapshot; None if
        the newest version is not complete until then. By the marks of the service, which are fewer
        than the commits, it may be a later one than the first.

    Raises
    ------
    TooOldError
        If the oldest version that is kept is complete until then.
    ValueError
        If the time is none, or the stream as in `complete_until`.
    """
    wanted = time_of(time, up=True)
    if url is not None:
        with closing(ServiceMarks(url, stream, token)) as marks:
            return marks.version_at(wanted)
    log = open_log(table, storage_options=storage_options, catalog=catalog)
    return _version_at(log, wanted)


def wait_for(
    table: str,
    time: int | str | datetime,
    *,
    timeout: float | timedelta | None = None,
    storage_options: Mapping[str, str] | None = None,
    catalog: Mapping[str, str] | None = None,
    url: str | None = None,
    stream: str | None = None,
    token: str | None = None,
) -> int:
    """Wait until a table is complete up to a time, and return the first version that is.

    Parameters
    ----------
    table, time, storage_options, catalog, url, stream, token
        See `version_at`.
    timeout
        How long, in seconds; for as long as it takes without it.

    Raises
    ------
    IncompleteTableError
        If it is not complete until then when the timeout is over; a ``TimeoutError``.
    WatermarkTimeoutError
        The same, by the marks of the service; it says why.
    TooOldError
        See `version_at`.
    TypeError
        If the timeout is something else.
    ValueError
        If it is no length of time, such as a NaN.

    Examples
    --------
    >>> version = wait_for("s3://lake/hourly", "2026-01-05T13:00:00Z", timeout=600)
    ... # doctest: +SKIP
    """
    wanted = time_of(time, up=True)
    patience = None if timeout is None else _span(timeout)
    if url is not None:
        with closing(ServiceMarks(url, stream, token)) as marks:
            return marks.wait_for(wanted, patience)
    log = open_log(table, storage_options=storage_options, catalog=catalog)
    until = None if patience is None else monotonic() + patience.total_seconds()
    while (version := _version_at(log, wanted)) is None:
        if until is not None and monotonic() >= until:
            reached = commit_in_effect(log.newest_first())
            raise IncompleteTableError(table, wanted, None if reached is None else reached.time)
        sleep(_PAUSE_S)
        log.refresh()
    return version


def _in_effect(log: TableLog) -> Commit | None:
    check_jobs(log.name, log.newest_first())
    return commit_in_effect(log.newest_first())


def _version_at(log: TableLog, time: int) -> int | None:
    commit = _first_complete(log, time)
    return None if commit is None else commit.version


def _first_complete(log: TableLog, time: int) -> Commit | None:
    check_jobs(log.name, log.newest_first())
    return first_complete(log.name, time, log.newest_first())


def _span(timeout: float | timedelta) -> timedelta:
    """Read a timeout; ``TypeError`` or ``ValueError`` if it is none."""
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        return check_span("timeout", timeout)
    try:
        return timedelta(seconds=timeout)
    except (ValueError, OverflowError):
        cure = "pass seconds, or leave it out to wait for as long as it takes"
        msg = f"timeout is {timeout}; {cure}"
        raise ValueError(msg) from None


def time_of(given: int | str | datetime, *, up: bool = False) -> int:
    """Read a time that a caller gives, in ms; it is rounded as in `to_event_time`."""
    if isinstance(given, str):
        return parse_event_time(given, up=up)
    return to_event_time(given, up=up)
