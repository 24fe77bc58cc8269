"""Arguments and options that several verbs take."""

from typing import Annotated

import typer

from tidegauge_cli.extras import needs_extra

with needs_extra("cli"):
    from tidegauge.event_time import parse_event_time
    from tidegauge.names import StreamName, check_name
    from tidegauge.wire.values import parse_position
    from tidegauge_cli.parsing import in_range, reading

LOCAL = "http://127.0.0.1:8470"
NEGATIVE_TIMES = {"ignore_unknown_options": True}
"""For verbs that take a time: one below zero looks like an option."""

Stream = Annotated[
    StreamName,
    typer.Argument(
        parser=reading(StreamName.parse), metavar="SCOPE/STREAM", help="Which stream."
    ),
]
Writer = Annotated[
    str, typer.Argument(parser=reading(check_name), metavar="WRITER", help="Its name.")
]
Time = Annotated[
    int,
    typer.Argument(
        parser=reading(parse_event_time),
        metavar="TIME",
        help="Milliseconds, or 2024-01-01T00:00:00Z; below zero after --.",
    ),
]
TimeOption = Annotated[
    int | None,
    typer.Option(
        "--time",
        parser=reading(parse_event_time),
        metavar="TIME",
        help="Milliseconds, or 2024-01-01T00:00:00Z.",
    ),
]
Position = Annotated[
    dict[int, int] | None,
    typer.Option(
        parser=reading(parse_position), metavar="0:40,1:12", help="Next offset of each segment."
    ),
]
Incarnation = Annotated[
    int | None,
    typer.Option(
        parser=in_range(int, 1), metavar="NUMBER", help="From a registration, if there was one."
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Take a time of early 1970, which looks like seconds.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask first.")]
Url = Annotated[str, typer.Option(envvar="TIDEGAUGE_URL", help="Of the service.")]
Token = Annotated[
    str | None,
    typer.Option(envvar="TIDEGAUGE_TOKEN", help="Bearer token.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def path_of(stream: StreamName) -> str:
    """Give the path of a stream at the service."""
    return f"/v1/streams/{stream}"
