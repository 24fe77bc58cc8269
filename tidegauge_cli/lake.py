"""The verb that asks a lakehouse table until when it is complete; it needs no service."""

import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic_core import to_json

from tidegauge.errors import TidegaugeError
from tidegauge.event_time import describe_span, is_date
from tidegauge.extras import needs_extra
from tidegauge_cli.options import Json, Timeout, reading, typed_time
from tidegauge_cli.tables import describe_time

if TYPE_CHECKING:
    from tidegauge.tables import Commit

lake = typer.Typer()
Properties = Annotated[
    list[str],
    typer.Option(metavar="NAME=VALUE", help="May be repeated.", show_default=False),
]


@lake.command(
    epilog="Example: tidegauge table s3://lake/hourly --wait 2024-01-01T13:00:00Z --timeout 10m"
)
def table(
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE",
            help="Address of a Delta table, or with --catalog the name of an Iceberg table.",
        ),
    ],
    *,
    wait: Annotated[
        int | None,
        typer.Option(
            parser=reading(partial(typed_time, up=True)),
            metavar="TIME",
            help="Wait until the table is complete up to this event time, and show the first version that is.",
        ),
    ] = None,
    at: Annotated[
        int | None,
        typer.Option(
            parser=reading(partial(typed_time, up=True)),
            metavar="TIME",
            help="Show which version was the first to be complete up to this event time, when it was "
            "committed, and by which job.",
        ),
    ] = None,
    timeout: Timeout = None,
    catalog: Properties = [],  # noqa: B006 (typer copies it)
    storage_option: Properties = [],  # noqa: B006 (the same)
    as_json: Json = False,
) -> None:
    """Show how far a lakehouse table is complete, by the notes of its commits."""
    if timeout is not None and wait is None:
        msg = "needs --wait TIME, which it ends"
        raise typer.BadParameter(msg, param_hint="--timeout")
    if at is not None and wait is not None:
        msg = "looks back, --wait looks forward; give one of them"
        raise typer.BadParameter(msg, param_hint="--at")
    try:
        with needs_extra("tidegauge table", extra="tables"):
            from tidegauge.tables import first_note, newest_note, wait_for  # noqa: PLC0415 (no help needs it)

            place: dict[str, Any] = {
                "catalog": properties(catalog),
                "storage_options": properties(storage_option),
            }
            if wait is not None:
                version = wait_for(table, wait, timeout=timeout, **place)
                answer: dict[str, object] = {"table": table, "time": wait, "version": version}
                lines = [
                    f"{table} is complete until {describe_time(wait)} at version {version}"
                ]
            elif at is not None:
                found = first_note(table, at, **place)
                answer, lines = _answer(table, found), _lines_at(table, found, at)
            else:
                found = newest_note(table, **place)
                answer, lines = _answer(table, found), _lines(table, found)
    except (TidegaugeError, ValueError, ImportError) as error:
        sys.exit(f"tidegauge: {error}")
    print(to_json(answer, indent=2).decode() if as_json else "\n".join(lines))


def properties(given: Sequence[str]) -> dict[str, str] | None:
    """Read options that are written NAME=VALUE; None if there is none."""
    wrong = [one for one in given if "=" not in one]
    if wrong:
        msg = f"{wrong[0]!r} is not NAME=VALUE"
        raise typer.BadParameter(msg)
    return dict(one.split("=", 1) for one in given) or None


def _answer(table: str, found: "Commit | None") -> dict[str, object]:
    if found is None or found.note is None:
        return {"table": table, "complete_until": None}
    return {
        "table": table,
        "complete_until": found.time,
        "version": found.version,
        "committed_at": found.at,
        **found.note.model_dump(include={"final", "job", "query", "batch"}),
    }


def _lines_at(table: str, found: "Commit | None", time: int) -> list[str]:
    if found is None or found.note is None:
        return [f"{table} is not complete until {describe_time(time)}"]
    later = f", {describe_span(found.at - time)} later" if is_date(time) else ""
    return [
        f"complete until {describe_time(time)}",
        f"at version     {found.version}, committed {describe_time(found.at)}{later}",
        f"by job         {found.note.job}",
    ]


def _lines(table: str, found: "Commit | None") -> list[str]:
    if found is None or found.note is None:
        cure = "no commit that holds has a note; append_to_table() and note() write them"
        return [f"{table} says nothing of its time: {cure}"]
    age = describe_span(max(time.time_ns() // 1_000_000 - found.at, 0))
    return [
        f"complete until {describe_time(found.time)}",
        f"since version  {found.version}, committed {age} ago",
        f"by job         {found.note.job}",
    ]
