"""`tidegauge token`: who is let in by a service."""

import sys
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from tidegauge_cli.extras import needs_extra
from tidegauge_cli.parsing import in_range

tokens = typer.Typer(help="Who is let in by a service.", no_args_is_help=True)


@tokens.command(
    epilog="Example: tidegauge token new gateway-7 --grant flights:write --tokens tokens.toml"
)
def new(
    name: Annotated[
        str, typer.Argument(help="Whose it is; what its holder does is logged with it.")
    ],
    *,
    grant: Annotated[
        list[str],
        typer.Option(
            help="SCOPE:ROLES, such as flights:read,write or '*:operate'; may be repeated."
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
