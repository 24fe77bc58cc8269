"""The verbs. Each imports what it needs when it runs, and says which extra is missing."""

from importlib.metadata import version
from typing import Annotated

import typer

from tidegauge_cli.administration import database, service, tokens
from tidegauge_cli.dashboard import dashboards
from tidegauge_cli.demo.verbs import demo
from tidegauge_cli.lake import lake
from tidegauge_cli.lifecycle import lifecycle
from tidegauge_cli.observing import observe
from tidegauge_cli.operators import operators
from tidegauge_cli.options import flag
from tidegauge_cli.reporting import reporting
from tidegauge_cli.work import work

app = typer.Typer(
    help="Event-time watermarks for partitioned streams.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
for verbs in (service, dashboards, lifecycle, operators, lake, work, reporting):
    app.add_typer(verbs)
app.add_typer(tokens, name="token")
app.add_typer(database, name="db")
app.add_typer(demo, name="demo")
app.add_typer(observe, name="observe")


def _show_version(wanted: bool) -> None:  # noqa: FBT001 (typer calls it)
    if wanted:
        print(version("tidegauge"))
        raise typer.Exit


@app.callback()
def _root(
    *,
    show_version: Annotated[
        bool,
        flag("--version", help="Show the version.", is_eager=True, callback=_show_version),
    ] = False,
) -> None:
    """Event-time watermarks for partitioned streams."""
