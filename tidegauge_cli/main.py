"""The verbs. Each imports what it needs when it runs, and says which extra is missing."""

import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

try:
    import typer
except ModuleNotFoundError:
    sys.exit("typer is not installed; run: pip install 'tidegauge[cli]'")

from tidegauge_cli.complaints import what_is_wrong
from tidegauge_cli.database import database
from tidegauge_cli.extras import needs_extra
from tidegauge_cli.operators import operators
from tidegauge_cli.serve_options import (
    Insecure,
    LogFormat,
    MaxGroups,
    MaxLongPolls,
    MaxNameLength,
    MaxPositionSegments,
    MaxStallMs,
    MaxStreams,
    MaxWritersPerStream,
    MetricsStreams,
    ShutdownDelayMs,
    TlsCertificate,
    TlsKey,
    Tokens,
)
from tidegauge_cli.tokens import tokens as token_verbs

app = typer.Typer(
    help="Event-time watermarks for partitioned streams.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(operators)
app.add_typer(token_verbs, name="token")
app.add_typer(database, name="db")


def _show_version(wanted: bool) -> None:  # noqa: FBT001 (typer calls it)
    if wanted:
        print(version("tidegauge"))
        raise typer.Exit


@app.callback()
def _root(
    *,
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version.", is_eager=True, callback=_show_version
        ),
    ] = False,
) -> None:
    """Event-time watermarks for partitioned streams."""


def _env(name: str) -> str:
    return f"TIDEGAUGE_{name.upper()}"


@app.command()
def serve(  # noqa: PLR0913 (options, each with a default)
    *,
    host: Annotated[
        str, typer.Option(envvar=_env("host"), help="Address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(envvar=_env("port"), help="Port to listen on; 0 for a free one.")
    ] = 8470,
    database_url: Annotated[
        str,
        typer.Option(
            envvar=_env("database_url"),
            help="Where the state lives; a PostgreSQL password is best in PGPASSWORD.",
        ),
    ] = "sqlite:///tidegauge.db",
    max_database_bytes: Annotated[
        int,
        typer.Option(
            envvar=_env("max_database_bytes"),
            help="Refuse writes beyond this size of an SQLite database; 0: no limit.",
        ),
    ] = 0,
    max_body_bytes: Annotated[
        int, typer.Option(envvar=_env("max_body_bytes"), help="Refuse larger requests.")
    ] = 16 * 2**20,
    mark_thinning: Annotated[
        str,
        typer.Option(
            envvar=_env("mark_thinning"),
            help="age_ms:step_ms,…: how few old marks are kept; empty: all of them.",
        ),
    ] = "3600000:1000,86400000:60000",
    log_level: Annotated[
        str, typer.Option(envvar=_env("log_level"), help="debug, info, warning or error.")
    ] = "info",
    tokens: Tokens = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
    insecure: Insecure = False,
    max_name_length: MaxNameLength = 255,
    max_position_segments: MaxPositionSegments = 10_000,
    max_writers_per_stream: MaxWritersPerStream = 1_000_000,
    max_streams: MaxStreams = 100_000,
    max_groups: MaxGroups = 10_000,
    max_long_polls: MaxLongPolls = 10_000,
    log_format: LogFormat = "text",
    metrics_streams: MetricsStreams = 1_000,
    max_stall_ms: MaxStallMs = 15_000,
    shutdown_delay_ms: ShutdownDelayMs = 0,
) -> None:
    """Serve the HTTP API until SIGTERM or Ctrl-C."""
    with needs_extra("controller"):
        import controller  # noqa: PLC0415 (says which extra is missing)
        from tidegauge.errors import TidegaugeError  # noqa: PLC0415
    try:
        settings = controller.ServeSettings(
            host=host,
            port=port,
            database_url=database_url,
            max_database_bytes=max_database_bytes,
            max_body_bytes=max_body_bytes,
            mark_thinning=mark_thinning,
            log_level=log_level,
            tokens=tokens,
            tls_certificate=tls_certificate,
            tls_key=tls_key,
            insecure=insecure,
            max_name_length=max_name_length,
            max_position_segments=max_position_segments,
            max_writers_per_stream=max_writers_per_stream,
            max_streams=max_streams,
            max_groups=max_groups,
            max_long_polls=max_long_polls,
            log_format=log_format,
            metrics_streams=metrics_streams,
            max_stall_ms=max_stall_ms,
            shutdown_delay_ms=shutdown_delay_ms,
        )
        controller.serve(settings)
    except (TidegaugeError, OSError, ValueError) as error:
        sys.exit(f"tidegauge serve: {what_is_wrong(error)}")


@app.command()
def demo(
    *,
    days: Annotated[
        int, typer.Option(min=1, max=365, help="How many days of January 2013 and on.")
    ] = 31,
    speed: Annotated[
        float, typer.Option(min=1, help="How many seconds of flights pass in one second.")
    ] = 35_000,
    output: Annotated[
        Path, typer.Option(help="Folder for the table, the picture and the results.")
    ] = Path("tidegauge-demo"),
) -> None:
    """Replay real flights through the service and Spark, and compare with the truth."""
    with needs_extra("all"):
        from tidegauge_cli.demo import run_demo  # noqa: PLC0415 (says which extra is missing)
    sys.exit(run_demo(days=days, speed=speed, output=output))


def main() -> None:
    """Run the command line."""
    app()
