"""Verbs of whoever runs a service: serve, db upgrade, token new."""

import sys
from collections.abc import Iterator
from datetime import timedelta
from inspect import Parameter, Signature
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from controller.configuration import PARTS, ServeSettings
from tidegauge.errors import TidegaugeError
from tidegauge.event_time import describe_span
from tidegauge_cli.extras import needs_extra
from tidegauge_cli.options import in_bytes, in_ms, in_range, reading

service = typer.Typer()
database = typer.Typer(help="Manage the database schema.", no_args_is_help=True)
tokens = typer.Typer(help="Manage access tokens.", no_args_is_help=True)

_PLAIN = {
    "Input should be greater than or equal to": "must be at least",
    "Input should be less than or equal to": "must be at most",
    "Input should be": "must be",
}
"""What pydantic says, and what is said of an option."""
_SIZES = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def serve(**settings: Any) -> None:  # noqa: ANN401 (typer read them)
    """Serve the HTTP API until SIGTERM or Ctrl-C."""
    with needs_extra("controller"):
        from controller.serving import server  # noqa: PLC0415 (says which extra is missing)
    try:
        server.serve(ServeSettings(**settings))
    except ValidationError as error:
        wrong = (_as_typed(one["loc"], one["msg"], one["input"]) for one in error.errors())
        sys.exit(f"tidegauge serve: {'; '.join(wrong)}")
    except (TidegaugeError, OSError, ValueError) as error:
        sys.exit(f"tidegauge serve: {error}")


def _as_typed(place: tuple[int | str, ...], message: str, given: object) -> str:
    reason = message.removeprefix("Value error, ")
    for said, plain in _PLAIN.items():
        reason = reason.replace(said, plain)
    option = "-".join(map(str, place)).replace("_", "-")
    return f"--{option} {given}: {reason}" if place else reason


def _size(size: int) -> str:
    return next(
        (f"{size // unit}{name}" for name, unit in _SIZES if size and not size % unit),
        str(size),
    )


def _option(panel: str, name: str, field: FieldInfo) -> Parameter:
    """Make the option of a setting: what it takes follows from the name and the type."""
    kind: Any = _kind(field.annotation)
    default = field.default
    words = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
    how: dict[str, Any] = {"metavar": "|".join(words) or None}
    if name.endswith("_ms"):
        shown = describe_span(default) if default else "0"
        how = {"parser": reading(in_ms), "metavar": "SPAN", "show_default": shown}
    elif name.endswith("_bytes"):
        how = {"parser": reading(in_bytes), "metavar": "SIZE", "show_default": _size(default)}
    elif kind is int:
        how = {"parser": in_range(0), "metavar": "NUMBER"}
    elif kind is bool:
        how = {"metavar": ""}
    option = typer.Option(
        "--" + name.replace("_", "-"),
        envvar=f"TIDEGAUGE_{name.upper()}",
        help=field.description,
        rich_help_panel=panel,
        **how,
    )
    annotation: Any = Annotated[kind, option]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _kind(annotation: Any) -> Any:  # noqa: ANN401 (types)
    """Return the type that typer reads: text for whatever the settings check themselves."""
    plain = annotation in {int, bool}
    if plain or Path in get_args(annotation):
        return annotation
    return str | None if NoneType in get_args(annotation) else str


def _parameters() -> Iterator[Parameter]:
    for part in PARTS:
        panel = part.model_config["title"]
        assert panel is not None  # noqa: S101 (each part has one)
        for name, field in part.model_fields.items():
            yield _option(panel, name, field)


serve.__dict__["__signature__"] = Signature([*_parameters()])
service.command(
    epilog="Example: tidegauge serve --port 8470 --database-url sqlite:///tidegauge.db"
)(serve)


@database.command(
    epilog="Example: tidegauge db upgrade --database-url postgresql://tidegauge@localhost/tidegauge"
)
def upgrade(
    database_url: Annotated[
        str,
        typer.Option(
            envvar="TIDEGAUGE_DATABASE_URL",
            help="sqlite:///PATH or postgresql://USER@HOST/NAME; set the password in "
            "PGPASSWORD or ~/.pgpass.",
        ),
    ],
) -> None:
    """Upgrade the schema. PostgreSQL needs this; `tidegauge serve` upgrades SQLite by itself."""
    with needs_extra("controller"):
        from controller import upgrade_database  # noqa: PLC0415 (says which extra is missing)
    try:
        name = upgrade_database(database_url)
    except (TidegaugeError, OSError) as error:
        sys.exit(f"tidegauge db upgrade: {error}")
    print(f"{name} has the newest schema")


@tokens.command(
    epilog="Example: tidegauge token new gateway-7 --grant flights:write --tokens tokens.toml"
)
def new(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="Name of the holder, which the service logs with each change."
        ),
    ],
    *,
    grant: Annotated[
        list[str],
        typer.Option(
            metavar="SCOPE:ROLES",
            help="Roles in a scope, such as flights:read,write or '*:observe'; repeatable.",
        ),
    ],
    file: Annotated[
        Path,
        typer.Option("--tokens", envvar="TIDEGAUGE_TOKENS", help="Token file of the service."),
    ] = Path("tokens.toml"),
    days: Annotated[
        int | None,
        typer.Option(
            parser=in_range(1, 36_500),
            metavar="1..36500",
            help="Expire after this number of days.",
            show_default="never",
        ),
    ] = None,
) -> None:
    """Create a token, print it once, and add its hash to a file.

    A service that uses the file accepts the token within seconds. To revoke it, delete its entry
    from the file.
    """
    with needs_extra("controller"):
        from controller.access import tokens as access  # noqa: PLC0415 (says which extra is missing)
    lasts = None if days is None else timedelta(days=days)
    try:
        made = access.new_token(name, access.parse_grants(grant), lasts=lasts)
        access.append_token(file, made.stored)
    except (TidegaugeError, ValueError) as error:
        sys.exit(f"tidegauge token new: {error}")
    print(f"added {name!r} to {file.absolute()}; it is shown only once:", file=sys.stderr)
    try:
        print(made.text, flush=True)
    except OSError as error:
        sys.stdout = None  # it would be tried again at the end
        cure = f"delete {name!r} from the file, and create another"
        sys.exit(f"tidegauge token new: cannot print the token ({error.strerror}): {cure}")
