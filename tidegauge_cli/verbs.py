"""The verbs. Each imports what it needs when it runs, and says which extra is missing."""

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from tidegauge_cli import serve_options as option
from tidegauge_cli.complaints import what_is_wrong
from tidegauge_cli.database import database
from tidegauge_cli.demo.verbs import demo
from tidegauge_cli.extras import needs_extra
from tidegauge_cli.lifecycle import lifecycle
from tidegauge_cli.operators import operators
from tidegauge_cli.reporting import reporting
from tidegauge_cli.tokens import tokens as token_verbs

app = typer.Typer(
    help="Event-time watermarks for partitioned streams.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(lifecycle)
app.add_typer(operators)
app.add_typer(reporting)
app.add_typer(token_verbs, name="token")
app.add_typer(database, name="db")
app.add_typer(demo, name="demo")


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


@app.command(
    epilog="Example: tidegauge serve --port 8470 --database-url sqlite:///tidegauge.db"
)
def serve(  # noqa: PLR0913 (options, each with a default)
    *,
    host: option.Host = "127.0.0.1",
    port: option.Port = 8470,
    database_url: option.DatabaseUrl = "sqlite:///tidegauge.db",
    max_database_bytes: option.MaxDatabaseBytes = 0,
    mark_thinning: option.MarkThinning = "3600000:1000,86400000:60000",
    shutdown_delay_ms: option.ShutdownDelayMs = 0,
    advertise_url: option.AdvertiseUrl = None,
    peer_ca: option.PeerCa = None,
    lease_ms: option.LeaseMs = 3_000,
    tokens: option.Tokens = None,
    tls_certificate: option.TlsCertificate = None,
    tls_key: option.TlsKey = None,
    insecure: option.Insecure = False,
    max_body_bytes: option.MaxBodyBytes = 16 * 2**20,
    max_report_bytes: option.MaxReportBytes = 2**16,
    max_head_bytes: option.MaxHeadBytes = 2**20,
    max_unfinished_head_bytes: option.MaxUnfinishedHeadBytes = 2**26,
    head_timeout_ms: option.HeadTimeoutMs = 10_000,
    max_name_length: option.MaxNameLength = 255,
    max_position_segments: option.MaxPositionSegments = 10_000,
    max_writers_per_stream: option.MaxWritersPerStream = 1_000_000,
    max_streams: option.MaxStreams = 100_000,
    max_groups: option.MaxGroups = 10_000,
    max_long_polls: option.MaxLongPolls = 10_000,
    log_level: option.LogLevel = "info",
    log_format: option.LogFormat = "text",
    metrics_streams: option.MetricsStreams = 1_000,
    traces: option.Traces = False,
    max_stall_ms: option.MaxStallMs = 15_000,
) -> None:
    """Serve the HTTP API until SIGTERM or Ctrl-C."""
    options = locals()
    with needs_extra("controller"):
        import controller  # noqa: PLC0415 (says which extra is missing)
        from tidegauge.errors import TidegaugeError  # noqa: PLC0415
    if traces:
        with needs_extra("otel"):
            import controller.metrics.tracing  # noqa: PLC0415 (the same)
    try:
        controller.serve(controller.ServeSettings(**options))
    except (TidegaugeError, OSError, ValueError) as error:
        sys.exit(f"tidegauge serve: {what_is_wrong(error)}")
