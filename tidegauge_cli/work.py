"""The verb that lists which intervals of a table or a stream a batch job has to run, or runs it."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from pydantic_core import to_json

from tidegauge.errors import TidegaugeError
from tidegauge.event_time import describe_event_time, describe_span, parse_event_time
from tidegauge.extras import needs_extra
from tidegauge.names import StreamName
from tidegauge.positions import format_position
from tidegauge_cli.lake import Properties, properties
from tidegauge_cli.options import LOCAL, Json, Token, Url, reading
from tidegauge_cli.service import warn

if TYPE_CHECKING:
    from tidegauge.intervals import Interval

work = typer.Typer()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Found(NamedTuple):
    """A work list of a table or of a stream.

    Attributes
    ----------
    place
        At what to read: the version of the table, or the cut of the stream.
    again
        None if nobody knows.
    """

    place: dict[str, Any]
    until: int | None
    new: "Sequence[Interval]"
    again: "Sequence[Interval] | None"
    cursor: str | None


@work.command(
    epilog="Example: tidegauge intervals s3://lake/hourly --by 1h --state hours.json "
    "-- run-hour {start} {end} {version}"
)
def intervals(
    source: Annotated[
        str,
        typer.Argument(
            metavar="TABLE|STREAM",
            help="Address of a Delta table, with --catalog the name of an Iceberg table, or "
            "SCOPE/STREAM. Write a relative path with ./ before it.",
        ),
    ],
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="COMMAND",
            help="With --state, and after --: run this for each interval, without a shell. {start} and {end} are "
            "filled in, and {version} of a table or {cut} of a stream.",
            show_default=False,
        ),
    ] = None,
    *,
    event_time: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="For a table: the column of its event time, such as window.start.",
            show_default="the one that its notes name",
        ),
    ] = None,
    by: Annotated[str, typer.Option(metavar="SPAN", help="Length of the intervals.")] = "1h",
    zone: Annotated[
        str | None,
        typer.Option(
            metavar="ZONE",
            help="Time zone whose local days the intervals divide, such as Europe/Paris.",
            show_default="UTC",
        ),
    ] = None,
    start: Annotated[
        int | None,
        typer.Option(
            parser=reading(parse_event_time),
            metavar="TIME",
            help="List no interval that begins before this time. The first call for a stream needs it.",
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="CURSOR", help="The cursor that the former call showed last."),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File for the cursor, and for what is left to run."),
    ] = None,
    stream: Annotated[
        str | None,
        typer.Option(
            metavar="SCOPE/STREAM", help="For a table: use the marks of this stream at --url."
        ),
    ] = None,
    catalog: Properties = [],  # noqa: B006 (typer copies it)
    storage_option: Properties = [],  # noqa: B006 (the same)
    url: Url = LOCAL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """List intervals that are complete now, and those that have changed; or run a command for each."""
    if (state is None) != (not command):
        msg = "goes with a command after --: --state FILE -- COMMAND {start} {end} {version}"
        raise typer.BadParameter(msg, param_hint="--state")
    if state is not None and since is not None:
        msg = "cannot come with --state, whose file has the cursor"
        raise typer.BadParameter(msg, param_hint="--since")
    shared: dict[str, Any] = {"by": by, "zone": zone, "start": start}
    is_stream = _is_stream(source, event_time, catalog)
    _check_placeholders(command or [], ("start", "end", "cut" if is_stream else "version"))

    def ask(cursor: str | None) -> _Found:
        if is_stream:
            return _ask_stream(source, url, token, since=cursor, **shared)
        service = {} if stream is None else {"url": url, "stream": stream, "token": token}
        return _ask_table(
            source,
            since=cursor,
            event_time=event_time,
            catalog=properties(catalog),
            storage_options=properties(storage_option),
            **service,
            **shared,
        )

    try:
        if state is None:
            _show(source, ask(since), as_json=as_json)
        elif not _run(state, ask, command or [], by, zone):
            raise typer.Exit(1)
    except (TidegaugeError, ValueError, OSError, ImportError) as error:
        sys.exit(f"tidegauge: {error}")


def _is_stream(source: str, event_time: str | None, catalog: Sequence[str]) -> bool:
    if event_time is not None or catalog:
        return False
    try:
        StreamName.parse(source)
    except ValueError:
        return False
    return True


def _check_placeholders(command: Sequence[str], known: Sequence[str]) -> None:
    """Refuse a placeholder that would not be filled in."""
    from tidegauge_cli.jobs import PLACEHOLDER  # noqa: PLC0415 (no help needs it)

    for name in chain.from_iterable(map(PLACEHOLDER.findall, command)):
        if name and name not in known:
            there_are = ", ".join(f"{{{one}}}" for one in known)
            cure = "or put a command that has such braces of its own into a script"
            msg = f"{{{name}}} is not a placeholder; use {there_are}, {cure}"
            raise typer.BadParameter(msg, param_hint="COMMAND")


def _ask_stream(source: str, url: str, token: str | None, **how: Any) -> _Found:  # noqa: ANN401
    with needs_extra("tidegauge intervals", extra="reader"):
        from reader_client import StreamClient  # noqa: PLC0415 (no help needs it)

        with StreamClient(url, source, token=token) as client:
            found = client.intervals(**how)
    cut = None if found.cut is None else format_position(found.cut)
    return _Found({"cut": cut}, found.until, found.new, found.again, found.cursor)


def _ask_table(source: str, **how: Any) -> _Found:  # noqa: ANN401
    with needs_extra("tidegauge intervals", extra="tables"):
        from tidegauge import tables  # noqa: PLC0415 (the same)

        found = tables.intervals(source, **how)
    return _Found({"version": found.version}, found.until, found.new, found.again, found.cursor)


def _run(state: Path, ask: Any, command: Sequence[str], by: str, zone: str | None) -> bool:  # noqa: ANN401 (a closure)
    from tidegauge.intervals import GoneError, Tiling  # noqa: PLC0415 (no help needs it)
    from tidegauge_cli.jobs import Listed, State, run_all  # noqa: PLC0415 (the same)

    def behind(cursor: str | None) -> Listed:
        try:
            found = ask(cursor)
        except (GoneError, ValueError) as error:
            if cursor is None:
                raise
            left = [parse_event_time(task.start) for task in State.load(state).left]
            if left:  # the error knows only what was listed
                start = describe_event_time(Tiling.parse(by, zone).floor(min(left)))
                rest = f", with intervals left: start no later than {start}"
            msg = f"{error} (the cursor is in {state}{rest if left else ''})"
            raise ValueError(msg) from error
        place = {name: str(value) for name, value in found.place.items()}
        ends = [
            (_text(interval.start), _text(interval.end))
            for interval in (*found.new, *(found.again or ()))
        ]
        return Listed(ends, {} if found.until is None else place, found.cursor)

    return run_all(state, behind, command)


def _show(source: str, found: _Found, *, as_json: bool) -> None:
    if as_json:
        document = {"source": source, **found._asdict(), **found.place}
        del document["place"]
        print(to_json(document, indent=2).decode())
        return
    if found.until is None:
        warn(f"{source} says nothing of its time now, so that nothing is listed")
    if found.again is None:
        warn("what came late is unknown: the log is external")
    (place,) = (f"{name} {value}" for name, value in found.place.items())
    for kind, some in (("new", found.new), ("again", found.again or ())):
        for interval in some:
            ends = f"{_text(interval.start)}  {_text(interval.end)}"
            print(f"{kind:<5}  {ends}  {place}  {_why(interval)}".rstrip())
    print(f"since  {found.cursor or 'the beginning'}")


def _why(interval: "Interval") -> str:
    late = f"{interval.rows} late, by up to {describe_span(interval.late_by)}"
    parts = [late if interval.rows else "", "rewritten" if interval.rewritten else ""]
    return "; ".join(filter(None, parts))


def _text(time: int) -> str:
    """Write a time in RFC 3339, without a fraction if it has none; as ms where it is no date."""
    try:
        moment = _EPOCH + timedelta(milliseconds=time)
    except OverflowError:
        return str(time)
    timespec = "milliseconds" if moment.microsecond else "seconds"
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")
