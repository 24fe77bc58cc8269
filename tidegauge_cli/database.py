"""What administrators do with the database."""

import sys
from typing import Annotated

import typer

from tidegauge_cli.extras import needs_extra

database = typer.Typer(help="Look after the database.", no_args_is_help=True)


@database.callback()
def _root() -> None:
    """Look after the database."""


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
