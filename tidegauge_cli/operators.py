"""The operator's verbs: look at streams, writers, marks and groups, ask why, watch and wait."""

from datetime import timedelta
from operator import attrgetter
from typing import Annotated, get_args

import typer

from tidegauge_cli.extras import needs_extra

with needs_extra("cli"):
    from tidegauge.aggregation.writers import WriterState
    from tidegauge.client.transport import RETRY_FOR
    from tidegauge.names import StreamName, parse_group
    from tidegauge.wire.groups import GroupList, TimeWindowInfo
    from tidegauge.wire.streams import MarkInfo, MarkList, StreamInfo, StreamList
    from tidegauge.wire.writers import Watermark, WriterList
    from tidegauge_cli.mark_pages import PAGE, describe_extent, first_marks, newest_marks
    from tidegauge_cli.options import (
        LOCAL,
        NEGATIVE_TIMES,
        Json,
        Stream,
        Time,
        Token,
        Url,
        path_of,
    )
    from tidegauge_cli.output import Output, print_pages, show, show_json
    from tidegauge_cli.parsing import in_range, one_of, reading
    from tidegauge_cli.service import Service, ask, warn
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


@operators.command(epilog="Example: tidegauge streams --json")
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


@operators.command(epilog="Example: tidegauge writers shop/orders --state behind")
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
    path = f"{path_of(stream)}/writers"
    output = Output(table_of_writers, as_json=as_json)
    ask(
        url,
        token,
        lambda service: print_pages(
            service.pages(path, WriterList, state=state), attrgetter("writers"), output
        ),
    )


@operators.command(epilog="Example: tidegauge marks shop/orders --limit 5")
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
    path = path_of(stream)

    async def read(service: Service) -> list[MarkInfo]:
        async def page(first: int, most: int = PAGE) -> list[MarkInfo]:
            found = await service.get(f"{path}/marks", MarkList, after=first, limit=most)
            return found.marks

        if after is not None:
            return await first_marks(page, after=after, limit=limit)
        newest = await service.get(path, StreamInfo)
        found = await newest_marks(page, revision=newest.revision, limit=limit)
        if extent := describe_extent(found, revision=newest.revision, limit=limit):
            warn(extent)
        return found

    show(ask(url, token, read), table_of_marks, as_json=as_json)


@operators.command(epilog="Example: tidegauge groups")
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


@operators.command(epilog="Example: tidegauge window shop/billing shop/orders")
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


@operators.command(epilog="Example: tidegauge why shop/orders")
def why(
    stream: Stream, *, url: Url = LOCAL, token: Token = None, as_json: Json = False
) -> None:
    """Tell why the watermark is where it is: who holds it, who waits, what to do."""
    found = ask(
        url, token, lambda service: service.get(f"{path_of(stream)}/watermark", Watermark)
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


@operators.command(epilog="Example: tidegauge watch shop/orders")
def watch(
    stream: Stream, *, url: Url = LOCAL, token: Token = None, as_json: Json = False
) -> None:
    """Follow the watermark, who holds it and how fast events arrive, until the stream is sealed."""
    try:
        ask(
            url,
            token,
            lambda service: watch_stream(service, path_of(stream), as_json=as_json),
            tell=_say_nothing,  # it waits for longer, and says so itself
        )
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


@operators.command(
    context_settings=NEGATIVE_TIMES,
    epilog="Example: tidegauge wait shop/orders 2024-01-01T13:00:00Z --timeout 600 && run-report",
)
def wait(  # noqa: PLR0913 (options, each with a default)
    stream: Stream,
    time: Time,
    *,
    timeout: Annotated[
        float | None,
        typer.Option(
            parser=in_range(float, 0),
            metavar="SECONDS",
            help="Give up after so long, with status 1.",
            show_default="never",
        ),
    ] = None,
    url: Url = LOCAL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Wait until every event below a time is there; if it takes too long, tell why."""
    patience = None if timeout is None else timedelta(seconds=timeout)
    watermark = ask(
        url,
        token,
        lambda service: service.stream(stream).wait_until(time, patience),
        retry_for=RETRY_FOR,  # nobody sits in front of it: it waits as long as other clients
    )
    if as_json:
        show_json({"stream": str(stream), "time": time, "watermark": watermark})
        return
    print(
        f"{stream} is complete below {describe_time(time)}; "
        f"watermark {describe_time(watermark)}"
    )


def _say_nothing(_line: str) -> None:
    pass
