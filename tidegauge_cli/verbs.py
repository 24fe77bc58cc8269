"""The verbs. Each is imported when it runs: to list all of them, none is."""

from pkgutil import resolve_name
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from tidegauge_cli.extras import needs_extra

VERBS = {
    "administration:service": {"serve": "Serve the HTTP API until SIGTERM or Ctrl-C."},
    "lifecycle:lifecycle": {
        "create": "Create a stream; idempotent: succeeds if the stream exists with these settings.",
        "configure": "Change settings of a stream; settings that you leave out stay as they are.",
        "scale": "Split or merge segments; writers and readers keep running and follow by themselves.",
        "truncate": "Drop the oldest events of a stream and their marks, before a stream cut or a time.",
        "seal": "End a stream permanently, with a final mark; an external log needs its end position.",
        "delete": "Delete a stream with its events, marks and writers.",
    },
    "operators:operators": {
        "streams": "List the streams with their watermarks and states; streams in trouble come first.",
        "writers": "List the writers of a stream and the times that they noted.",
        "marks": "List the marks of a stream, oldest first, and when each was made.",
        "groups": "List the reader groups, the segments of each reader, and how far each group is behind.",
        "window": "Show the time window of a reader group in one of its streams, or in all of them.",
        "lag": "Show the progress of a reader group's query: its bound, its lag, and late rows.",
        "why": "Explain why the watermark is where it is: who holds it, who waits, and what to do.",
        "watch": "Follow the watermark, its holders and the rate of events until the stream is sealed.",
        "wait": "Wait until streams are complete up to a time; explain why if it takes too long.",
    },
    "lake:lake": {
        "table": "Show how far a lakehouse table is complete, by the notes of its commits.",
    },
    "work:work": {
        "intervals": "List intervals that are complete now, and those that have changed; or run a command for each.",
    },
    "reporting:reporting": {
        "register": "Register a writer before it writes; the watermark waits for it, and a former process is fenced.",
        "note-time": "Note a time for a writer: it promises to write nothing older after the position.",
        "leave": "Remove a writer that writes no more; the watermark no longer waits for it.",
        "expire": "Drop a writer that holds the watermark; it returns with a time above the watermark.",
    },
    "administration:tokens": {"token": "Manage access tokens."},
    "administration:database": {"db": "Manage the database schema."},
    "observing:observe": {"observe": "Note time for producers you cannot change."},
}
"""The modules and variables that have the verbs, and of each verb the first line of its help."""
_PLACES = {verb: place for place, summaries in VERBS.items() for verb in summaries}


def load(verb: str) -> Any:  # noqa: ANN401 (a command or a group of commands, as typer makes them)
    """Import a verb."""
    with needs_extra("cli"):
        group = typer.main.get_group(resolve_name(f"tidegauge_cli.{_PLACES[verb]}"))
    command = group.commands.get(verb, group)
    command.name = verb
    return command


def whole_command() -> Any:  # noqa: ANN401 (the same)
    """Import all verbs, for the reference."""
    command: Any = typer.main.get_command(app)
    command.commands = {verb: load(verb) for verb in _PLACES}
    return command


class _Verbs(TyperGroup):
    """Knows of a verb what the list of all says, until it runs or its options are completed."""

    def __init__(self, **given: Any) -> None:  # noqa: ANN401 (typer's)
        super().__init__(**given)
        for summaries in VERBS.values():
            for verb, summary in summaries.items():
                self.add_command(TyperCommand(verb, help=summary))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 (click's)
        verb, _, rest = super().resolve_command(ctx, args)
        return verb, load(verb) if verb else None, rest


app = typer.Typer(
    cls=_Verbs,
    help="Event-time watermarks for partitioned streams.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:  # noqa: FBT001 (typer calls it)
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415 (verbs do without)

        print(version("tidegauge"))
        raise typer.Exit


@app.callback()
def _root(
    *,
    show_version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Show the version.",
            metavar="",
            is_eager=True,
            callback=_show_version,
        ),
    ] = False,
) -> None:
    """Event-time watermarks for partitioned streams."""
