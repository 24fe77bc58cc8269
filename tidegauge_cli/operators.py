"""The operator's verbs: look at streams, writers, marks and groups, ask why, and step in."""

from operator import attrgetter
from typing import Annotated, get_args

import typer

from tidegauge_cli.extras import needs_extra

with needs_extra("cli"):
    from tidegauge.aggregation.writers import WriterState
    from tidegauge.event_time import parse_event_time
    from tidegauge.names import StreamName, check_name, parse_group
    from tidegauge.wire.groups import GroupList, TimeWindowInfo
    from tidegauge.wire.streams import (
        MarkInfo,
        MarkList,
        SealedStream,
        SealStream,
        StreamInfo,
        StreamList,
    )
    from tidegauge.wire.values import parse_position
    from tidegauge.wire.writers import (
        NoteTime,
        TimeNoted,
        Watermark,
        WriterAnswer,
        WriterList,
    )
    from tidegauge_cli.mark_pages import PAGE, first_marks, newest_marks
    from tidegauge_cli.output import Output, print_pages, show, show_json
    from tidegauge_cli.parsing import in_range, one_of, reading
    from tidegauge_cli.service import Service, ask
    from tidegauge_cli.tables import (
        describe_position,
        describe_rest,
        describe_time,
        holders_of,
        table_of_groups,
        table_of_marks,
        table_of_streams,
        table_of_writers,
    )
    from tidegauge_cli.watching import watch_stream

operators = typer.Typer()


Stream = Annotated[
    StreamName,
    typer.Argument(
        parser=reading(StreamName.parse), metavar="SCOPE/STREAM", help="Which stream."
    ),
]
Writer = Annotated[
    str, typer.Argument(parser=reading(check_name), metavar="WRITER", help="Its name.")
]
Url = Annotated[str, typer.Option(envvar="TIDEGAUGE_URL", help="Of the service.")]
Token = Annotated[
    str | None,
    typer.Option(envvar="TIDEGAUGE_TOKEN", help="Bearer token.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Position = Annotated[
    dict[int, int] | None,
    typer.Option(
        parser=reading(parse_position), metavar="0:40,1:12", help="Next offset of each segment."
    ),
]
LOCAL = "http://127.0.0.1:8470"


@operators.command()
def streams(*, url: Url = LOCAL, token: Token = None, as_json: Json = False) -> None:
    """List the streams and where their watermarks stand."""
    output = Output(table_of_streams, as_json=as_json)
    ask(
        url,
        token,
        lambda service: print_pages(
            service.pages("/v1/streams", StreamList), attrgetter("streams"), output
        ),
    )


@operators.command()
def writers(
    stream: Stream,
    *,
    state: Annotated[
        WriterState | None,
        typer.Option(
            parser=one_of(get_args(WriterState)),
            metavar="|".join(get_args(WriterState)),
            help="Only those in this state.",
        ),
    ] = None,
    url: Url = LOCAL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """List the writers of a stream and what each of them noted."""
    path = f"{_path(stream)}/writers"
    output = Output(table_of_writers, as_json=as_json)
    ask(
        url,
        token,
        lambda service: print_pages(
            service.pages(path, WriterList, state=state), attrgetter("writers"), output
        ),
    )


@operators.command()
def marks(  # noqa: PLR0913 (options, each with a default)
    stream: Stream,
    *,
    after: Annotated[
        int | None,
        typer.Option(
            parser=in_range(int, 0),
            metavar="REVISION",
            help="The first after this revision.",
            show_default="the newest",
        ),
    ] = None,
    limit: Annotated[
        int,
        typer.Option(
            parser=in_range(int, 1, PAGE), metavar=f"1..{PAGE}", help="At most so many."
        ),
    ] = 20,
    url: Url = LOCAL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """List the marks of a stream, oldest first."""
    path = _path(stream)

    async def read(service: Service) -> list[MarkInfo]:
        async def page(first: int, most: int = PAGE) -> list[MarkInfo]:
            found = await service.get(f"{path}/marks", MarkList, after=first, limit=most)
            return found.marks

        if after is not None:
            return await first_marks(page, after=after, limit=limit)
        newest = await service.get(path, StreamInfo)
        return await newest_marks(page, revision=newest.revision, limit=limit)

    show(ask(url, token, read), table_of_marks, as_json=as_json)


@operators.command()
def groups(*, url: Url = LOCAL, token: Token = None, as_json: Json = False) -> None:
    """List the reader groups and what each reader owns."""
    output = Output(table_of_groups, as_json=as_json)
    ask(
        url,
        token,
        lambda service: print_pages(
            service.pages("/v1/reader-groups", GroupList), attrgetter("groups"), output
        ),
    )


@operators.command()
def window(
    group: Annotated[
        StreamName,
        typer.Argument(parser=reading(parse_group), metavar="SCOPE/GROUP", help="Which group."),
    ],
    stream: Stream,
    *,
    url: Url = LOCAL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Show the time window of a reader group in one of its streams."""
    path = f"/v1/reader-groups/{group}/time-window"
    found = ask(
        url, token, lambda service: service.get(path, TimeWindowInfo, stream=str(stream))
    )
    if as_json:
        show_json(found)
        return
    lower, upper = found.lower, found.upper
    print(f"lower     {'before the first mark' if lower is None else describe_time(lower)}")
    print(f"upper     {'at the tail' if upper is None else describe_time(upper)}")
    print(f"watermark {describe_time(found.watermark)}")
    print(f"position  {describe_position(found.position)}")


@operators.command()
def why(
    stream: Stream, *, url: Url = LOCAL, token: Token = None, as_json: Json = False
) -> None:
    """Tell why the watermark is where it is: who holds it, who waits, what to do."""
    found = ask(
        url, token, lambda service: service.get(f"{_path(stream)}/watermark", Watermark)
    )
    if as_json:
        show_json(found)
        return
    explanation = found.explanation
    print(explanation.sentence)
    if explanation.hint is not None:
        print(explanation.hint)
    if holders := holders_of(explanation):
        show(holders, table_of_writers, as_json=False)
    if rest := describe_rest(explanation):
        print(rest)


@operators.command()
def watch(
    stream: Stream, *, url: Url = LOCAL, token: Token = None, as_json: Json = False
) -> None:
    """Follow the watermark, who holds it and how fast events arrive, until the stream is sealed."""
    try:
        ask(
            url,
            token,
            lambda service: watch_stream(service, _path(stream), as_json=as_json),
            tell=_say_nothing,  # it waits for longer, and says so itself
        )
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


@operators.command("note-time", context_settings={"ignore_unknown_options": True})
def note_time(  # noqa: PLR0913 (one report has as many parts)
    stream: Stream,
    writer: Writer,
    time: Annotated[
        int,
        typer.Argument(
            parser=reading(parse_event_time),
            metavar="TIME",
            help="Milliseconds, or 2024-01-01T00:00:00Z; below zero after --.",
        ),
    ],
    *,
    position: Position = None,
    incarnation: Annotated[
        int | None,
        typer.Option(
            parser=in_range(int, 1),
            metavar="NUMBER",
            help="From a registration, if there was one.",
        ),
    ] = None,
    url: Url = LOCAL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Note time for a writer: whatever it writes after the position is not older."""
    report = NoteTime(time=time, position=position, incarnation=incarnation)
    path = f"{_path(stream)}/writers/{writer}/note-time"
    noted = ask(url, token, lambda service: service.post(path, TimeNoted, report))
    if as_json:
        show_json(noted)
        return
    print(f"{writer} is {noted.state}; watermark {describe_time(noted.watermark)}")
    if noted.hint is not None:
        print(noted.hint)


@operators.command()
def expire(
    stream: Stream,
    writer: Writer,
    *,
    url: Url = LOCAL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Drop a writer that holds the others up; it returns with a time at or above the mark."""
    path = f"{_path(stream)}/writers/{writer}/expire"
    dropped = ask(url, token, lambda service: service.post(path, WriterAnswer))
    if as_json:
        show_json(dropped)
    else:
        print(f"{writer} is {dropped.state}; watermark {describe_time(dropped.watermark)}")


@operators.command()
def seal(  # noqa: PLR0913 (options, each with a default)
    stream: Stream,
    *,
    position: Position = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask first.")] = False,
    url: Url = LOCAL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """End a stream for ever, with a final mark; an external log needs its end position."""
    if not yes:
        question = f"Nothing can be written to {stream} afterwards. Seal it?"
        typer.confirm(question, abort=True, err=True)

    async def post(service: Service) -> SealedStream:
        body = SealStream(position=position)
        return await service.post(f"{_path(stream)}/seal", SealedStream, body)

    sealed = ask(url, token, post)
    if as_json:
        show_json(sealed)
    else:
        print(f"{stream} is sealed at {describe_position(sealed.mark.cut)}")


def _say_nothing(_line: str) -> None:
    pass


def _path(stream: StreamName) -> str:
    return f"/v1/streams/{stream}"
