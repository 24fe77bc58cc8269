"""The verb that shows the dashboard, and its process beside a local service."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from tidegauge.errors import TidegaugeError
from tidegauge_cli.extras import needs_extra
from tidegauge_cli.options import LOCAL, Token, Url, flag, in_range, in_time

dashboards = typer.Typer()
UI_PORT = 8787


@dashboards.command(epilog="Example: tidegauge ui --url http://127.0.0.1:8470")
def ui(
    *,
    url: Url = LOCAL,
    token: Token = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            envvar="TIDEGAUGE_TOKEN_FILE",
            help="File with the bearer token; the role `observe` is enough.",
        ),
    ] = None,
    shown_url: Annotated[
        str | None,
        typer.Option(
            envvar="TIDEGAUGE_UI_SHOWN_URL",
            help="Service URL to show on the pages and in commands.",
            show_default="--url",
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(envvar="TIDEGAUGE_UI_HOST", help="Address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            envvar="TIDEGAUGE_UI_PORT",
            parser=in_range(1, 65_535),
            metavar="NUMBER",
            help="Port to listen on.",
        ),
    ] = UI_PORT,
    name: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST",
            help="Host name that browsers use, besides localhost and IP addresses; repeatable; "
            "'*' for any.",
        ),
    ] = None,
    insecure: Annotated[
        bool,
        flag(
            "--insecure",
            envvar="TIDEGAUGE_UI_INSECURE",
            help="Listen beyond this machine; anybody who reaches it sees all streams.",
        ),
    ] = False,
    held_after: Annotated[
        float,
        typer.Option(
            envvar="TIDEGAUGE_UI_HELD_AFTER",
            parser=in_time(1_000),
            metavar="SPAN",
            help="Show a stream as held once its watermark has stood for this long.",
        ),
    ] = 10.0,
) -> None:
    """Serve the dashboard: every watermark, its holders and its readers, in a browser."""
    with needs_extra("ui"):
        import tidegauge_dashboard  # noqa: PLC0415 (says which extra is missing)
    try:
        if token_file is not None:
            token = token_file.read_text("utf-8").strip()
        settings = tidegauge_dashboard.DashboardSettings(
            url=url,
            token=token,
            shown_url=shown_url,
            host=host,
            port=port,
            names=tuple(name or ()),
            insecure=insecure,
            held_after_ms=round(held_after * 1_000),
        )
        tidegauge_dashboard.run(settings)
    except (TidegaugeError, ValueError, OSError) as error:
        sys.exit(f"tidegauge ui: {error}")


@contextmanager
def beside(url: str) -> Iterator[str]:
    """Show the dashboard of a service for a while, by a process of its own; gives its address."""
    import tidegauge_dashboard  # noqa: PLC0415 (an extra, which the caller has looked for)

    # as that process reads them
    port = os.environ.get("TIDEGAUGE_UI_PORT", str(UI_PORT))
    host = os.environ.get("TIDEGAUGE_UI_HOST", "127.0.0.1")
    try:
        tidegauge_dashboard.listen(host, int(port)).close()
    except tidegauge_dashboard.PortTakenError as error:
        msg = f"port {port} of the dashboard is taken; set TIDEGAUGE_UI_PORT to another"
        raise ValueError(msg) from error
    # -P: whatever is called as a package of ours in the current folder is not meant
    command = [sys.executable, "-P", "-m", "tidegauge_cli", "ui", "--url", url, "--port", port]
    process = subprocess.Popen(command)
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.terminate()
        process.wait()
