"""Verbs of whoever runs a service: serve, db upgrade, token new."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from tidegauge.event_time import describe_span
from tidegauge_cli.dashboard import beside
from tidegauge_cli.extras import needs_extra
from tidegauge_cli.options import flag, in_bytes, in_ms, in_range, reading

service = typer.Typer()
database = typer.Typer(help="Look after the database.", no_args_is_help=True)
tokens = typer.Typer(help="Who is let in by a service.", no_args_is_help=True)

_SETTINGS: dict[str, list[tuple[str, Any, object, str]]] = {
    "Serving": [
        ("host", str, "127.0.0.1", "Address to listen on."),
        ("port", int, 8470, "Port to listen on; 0 for a free one."),
        (
            "database_url",
            str,
            "sqlite:///tidegauge.db",
            "Where the state lives; a PostgreSQL password is best in PGPASSWORD.",
        ),
        (
            "max_database_bytes",
            int,
            0,
            "Refuse writes beyond this size of an SQLite database; 0: no limit.",
        ),
        (
            "mark_thinning",
            str,
            "3600000:1000,86400000:60000",
            "AGE:STEP,…, as 1h:1s,1d:1m: how few old marks are kept; empty: all of them.",
        ),
        ("shutdown_delay_ms", int, 0, "Serve so long after SIGTERM, while /readyz says 503."),
    ],
    "Dashboard": [
        ("ui", bool, False, "Show the dashboard beside it; needs the extra ui."),
        ("ui_url", str | None, None, "Where a dashboard is: the page at / links to it."),
    ],
    "Several controllers over one PostgreSQL database": [
        (
            "advertise_url",
            str | None,
            None,
            "Where the others reach this one; else where it listens.",
        ),
        (
            "peer_ca",
            Path | None,
            None,
            "Trust the others by who signed their certificates, in this file.",
        ),
        ("lease_ms", int, 3_000, "After such a silence, others take its streams over."),
    ],
    "Access": [
        ("tokens", Path | None, None, "File of the tokens that are let in; see `token new`."),
        ("tls_certificate", Path | None, None, "Speak TLS with this certificate (PEM)."),
        ("tls_key", Path | None, None, "Its key (PEM), unless it is in the same file."),
        ("insecure", bool, False, "Listen beyond this machine although nobody is asked."),
    ],
    "Limits": [
        ("max_body_bytes", int, 16 * 2**20, "Refuse larger requests."),
        ("max_report_bytes", int, 2**16, "Refuse larger single reports."),
        ("max_head_bytes", int, 2**20, "Refuse longer addresses and headers."),
        (
            "max_unfinished_head_bytes",
            int,
            2**26,
            "Memory for all addresses and headers that are not whole yet; the oldest give way.",
        ),
        (
            "head_timeout_ms",
            int,
            10_000,
            "Wait so long for a first byte, and for the rest of a head.",
        ),
        ("max_name_length", int, 255, "Refuse longer names of what is new; at most 255."),
        ("max_position_segments", int, 10_000, "Refuse positions that name more segments."),
        ("max_writers_per_stream", int, 1_000_000, "Refuse more writers of one stream."),
        (
            "max_transactions_per_stream",
            int,
            1_000,
            "Refuse more open transactions of one stream.",
        ),
        (
            "max_transaction_bytes",
            int,
            256 * 2**20,
            "Refuse more bytes of events in one transaction.",
        ),
        ("max_streams", int, 100_000, "Refuse more streams."),
        ("max_groups", int, 10_000, "Refuse more reader groups."),
        ("max_long_polls", int, 10_000, "Let so many calls wait for news."),
    ],
    "Logs, metrics and health": [
        ("log_level", str, "info", "debug, info, warning or error."),
        ("log_format", str, "text", "text, or json: one object a line."),
        ("metrics_streams", int, 1_000, "Show so many streams one by one in /metrics."),
        ("traces", bool, False, "Send traces as OTEL_… says; needs the extra otel."),
        ("max_stall_ms", int, 15_000, "/healthz says 503 when nothing moves for so long."),
    ],
}
"""Of `serve`, by panel; the controller has more to say of each, and need not be installed."""
_SIZES = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def serve(**settings: Any) -> None:  # noqa: ANN401 (typer read them)
    """Serve the HTTP API until SIGTERM or Ctrl-C."""
    with needs_extra("controller"):
        import controller  # noqa: PLC0415 (says which extra is missing)
        from tidegauge.errors import TidegaugeError  # noqa: PLC0415
    if settings["traces"]:
        with needs_extra("otel"):
            import controller.metrics.tracing  # noqa: PLC0415 (the same)
    try:
        with _dashboard(settings) as shown:
            controller.serve(controller.ServeSettings(**settings | shown))
    except ValidationError as error:
        wrong = (_as_typed(one["loc"], one["msg"], one["input"]) for one in error.errors())
        sys.exit(f"tidegauge serve: {'; '.join(wrong)}")
    except (TidegaugeError, OSError, ValueError) as error:
        sys.exit(f"tidegauge serve: {error}")


@contextmanager
def _dashboard(settings: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Show the dashboard beside the service, if that is wanted; tells the service where."""
    if not settings.pop("ui"):
        yield {}
        return
    with needs_extra("ui"):
        import dashboard as _  # noqa: F401, PLC0415 (says which extra is missing)
    for name in ("tokens", "tls_certificate"):
        if settings[name] is not None:
            option = name.replace("_", "-")
            msg = f"--ui shows a service without --{option}; start `tidegauge ui` beside it"
            raise ValueError(msg)
    if settings["port"] == 0:
        msg = "--ui needs to know the port: give --port"
        raise ValueError(msg)
    with beside(f"http://{_reachable(settings['host'])}:{settings['port']}") as address:
        yield {"ui_url": settings["ui_url"] or address}


def _reachable(host: str) -> str:
    """Write where a service on this machine is reached, as in an address."""
    here = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    return f"[{here}]" if ":" in here else here


def _as_typed(place: tuple[int | str, ...], message: str, given: object) -> str:
    reason = message.removeprefix("Value error, ")
    option = "-".join(map(str, place)).replace("_", "-")
    return f"--{option} {given}: {reason}" if place else reason


def _span(default: Any) -> str:  # noqa: ANN401 (a number of ms)
    return describe_span(default) if default else "0"


def _size(default: Any) -> str:  # noqa: ANN401 (a number of bytes)
    return next(
        (f"{default // size}{unit}" for unit, size in _SIZES if default and not default % size),
        str(default),
    )


def _option(panel: str, name: str, kind: Any, default: object, description: str) -> Parameter:  # noqa: ANN401 (a type)
    how: dict[str, Any] = {}
    if name.endswith("_ms"):
        how = {"parser": reading(in_ms), "metavar": "SPAN", "show_default": _span(default)}
    elif name.endswith("_bytes"):
        how = {"parser": reading(in_bytes), "metavar": "SIZE", "show_default": _size(default)}
    elif kind is int:
        how = {"parser": in_range(int, 0), "metavar": "NUMBER"}
    option: Any = (flag if kind is bool else typer.Option)(
        "--" + name.replace("_", "-"),
        envvar=f"TIDEGAUGE_{name.upper()}",
        help=description,
        rich_help_panel=panel,
        **how,
    )
    annotation = Annotated[kind, option]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


serve.__dict__["__signature__"] = Signature(
    [_option(panel, *one) for panel, settings in _SETTINGS.items() for one in settings]
)
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
            help="sqlite:///PATH or postgresql://USER@HOST/NAME; the password is best in "
            "PGPASSWORD or ~/.pgpass.",
        ),
    ],
) -> None:
    """Bring the schema up to date. Needed for PostgreSQL; SQLite's is by `tidegauge serve`."""
    with needs_extra("controller"):
        import controller  # noqa: PLC0415 (says which extra is missing)
        from tidegauge.errors import TidegaugeError  # noqa: PLC0415
    try:
        name = controller.upgrade_database(database_url)
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
            metavar="NAME", help="Whose it is; what its holder does is logged with it."
        ),
    ],
    *,
    grant: Annotated[
        list[str],
        typer.Option(
            metavar="SCOPE:ROLES",
            help="Such as flights:read,write or '*:observe'; may be repeated.",
        ),
    ],
    file: Annotated[
        Path,
        typer.Option(
            "--tokens", envvar="TIDEGAUGE_TOKENS", help="File of the service's tokens."
        ),
    ] = Path("tokens.toml"),
    days: Annotated[
        int | None,
        typer.Option(
            parser=in_range(int, 1, 36_500),
            metavar="1..36500",
            help="Expire after so many days.",
            show_default="never",
        ),
    ] = None,
) -> None:
    """Make a token, print it, once, and add its hash to a file.

    A service that runs with the file lets it in within seconds. To withdraw it, delete its part
    of the file.
    """
    with needs_extra("controller"):
        from controller.access import tokens as access  # noqa: PLC0415 (says which extra is missing)
        from tidegauge.errors import TidegaugeError  # noqa: PLC0415
    lasts = None if days is None else timedelta(days=days)
    try:
        made = access.new_token(name, access.parse_grants(grant), lasts=lasts)
        access.append_token(file, made.stored)
    except (TidegaugeError, ValueError) as error:
        sys.exit(f"tidegauge token new: {error}")
    print(f"added {name!r} to {file.absolute()}; it is shown this once:", file=sys.stderr)
    try:
        print(made.text, flush=True)
    except OSError as error:
        sys.stdout = None  # it would be tried again at the end
        cure = f"delete {name!r} from the file, and make another"
        sys.exit(f"tidegauge token new: it cannot be shown ({error.strerror}): {cure}")
