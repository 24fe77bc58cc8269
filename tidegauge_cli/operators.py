"""The operator's verbs: look at streams, writers, marks and groups, ask why, watch and wait."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import partial
from operator import attrgetter
from typing import Annotated, TypeVar, get_args

import typer
from pydantic import BaseModel

from tidegauge.client.outage import RETRY_FOR
from tidegauge.client.stream_calls import StreamCalls, WatermarkTimeoutError
from tidegauge.names import StreamName, parse_group
from tidegauge.states import WriterState
from tidegauge.wire.groups import GroupDetails, GroupList, GroupWindows, TimeWindowInfo
from tidegauge.wire.streams import BriefStreamList, MarkInfo, MarkList, StreamInfo, StreamList
from tidegauge.wire.writers import Watermark, WriterList
from tidegauge_cli.holding import show_completion, show_held_streams, show_holds
from tidegauge_cli.listing import Listing, Output
from tidegauge_cli.mark_pages import (
    PAGE,
    describe_extent,
    first_marks,
    last_before,
    newest_marks,
)
from tidegauge_cli.options import (
    AwaitedTime,
    Stream,
    Streams,
    Timeout,
    in_range,
    moment,
    one_of,
    path_of,
    reading,
    typed_time,
)
from tidegauge_cli.service import Service, Session, asks, warn
from tidegauge_cli.tables import (
    describe_lower,
    describe_position,
    describe_rest,
    describe_time,
    describe_upper,
    holders_of,
    judge,
    lines_of,
    lines_of_progress,
    table_of_groups,
    table_of_marks,
    table_of_streams,
    table_of_windows,
    table_of_writers,
)
from tidegauge_cli.watching import watch_stream

_T = TypeVar("_T")
_P = TypeVar("_P", bound=BaseModel)
Group = Annotated[
    StreamName,
    typer.Argument(
        parser=reading(parse_group), metavar="SCOPE/GROUP", help="Name of the reader group."
    ),
]
Since = Annotated[
    int | None,
    typer.Option(
        parser=reading(moment),
        metavar="SPAN|TIME",
        help="How far to look back, such as 12h, or the time to begin at.",
    ),
]
operators = typer.Typer()


@asks(operators, "streams --json")
def streams(session: Session, *, since: Since = None) -> None:
    """List the streams with their watermarks and states; streams in trouble come first.

    With --since, list those whose watermarks were held, the most held first.
    """
    if since is not None:
        show_held_streams(session, since)
        return
    path = "/v1/streams"
    if session.as_json:
        entries = attrgetter("streams")
        _list(session, table_of_streams, path, StreamList, entries, explain=True)
    else:
        _list(session, table_of_streams, path, BriefStreamList, judge, brief=True, explain=True)


@asks(operators, "writers shop/orders --state behind")
def writers(
    session: Session,
    stream: Stream,
    *,
    state: Annotated[
        WriterState | None,
        typer.Option(
            parser=one_of(get_args(WriterState)),
            metavar="|".join(get_args(WriterState)),
            help="List only writers in this state.",
        ),
    ] = None,
) -> None:
    """List the writers of a stream and the times that they noted."""
    path, entries = f"{path_of(stream)}/writers", attrgetter("writers")
    _list(session, table_of_writers, path, WriterList, entries, state=state)


@asks(operators, "marks shop/orders --limit 5")
def marks(
    session: Session,
    stream: Stream,
    *,
    after: Annotated[
        int | None,
        typer.Option(
            parser=in_range(0),
            metavar="REVISION",
            help="List the first marks after this revision.",
            show_default="the newest",
        ),
    ] = None,
    since: Annotated[
        int | None,
        typer.Option(
            parser=reading(moment),
            metavar="SPAN|TIME",
            help="List the first marks that were made within this span before now, such as 15m, or since this time.",
        ),
    ] = None,
    limit: Annotated[
        int,
        typer.Option(
            parser=in_range(1, PAGE), metavar=f"1..{PAGE}", help="Maximum number of marks."
        ),
    ] = 20,
) -> None:
    """List the marks of a stream, oldest first, and when each was made."""
    path = path_of(stream)

    async def read(service: Service) -> list[MarkInfo]:
        async def page(first: int, most: int = PAGE) -> list[MarkInfo]:
            found = await service.get(f"{path}/marks", MarkList, after=first, limit=most)
            return found.marks

        revision = (await service.get(path, StreamInfo)).revision
        if after is None and since is None:
            found = await newest_marks(page, revision=revision, limit=limit)
            extent = describe_extent(found, revision=revision, limit=limit)
        else:
            before = 0 if since is None else await last_before(page, since, revision=revision)
            found = await first_marks(page, after=max(before, after or 0), limit=limit)
            last = found[-1].revision if found else 0
            more = f"the first {limit}; --limit shows more, --after {last} those that follow"
            extent = more if len(found) == limit else None
        if extent:
            warn(extent)
        return found

    output = Output(table_of_marks, as_json=session.as_json)
    output.page(session.ask(read))
    output.end()


@asks(operators, "groups")
def groups(session: Session) -> None:
    """List the reader groups, the segments of each reader, and how far each group is behind."""
    path, entries = "/v1/reader-groups", attrgetter("groups")
    _list(session, table_of_groups, path, GroupList, entries, windows=True)


@asks(operators, "window shop/billing shop/orders")
def window(
    session: Session,
    group: Group,
    stream: Annotated[
        str | None,
        typer.Argument(
            callback=lambda text: text and str(reading(StreamName.parse)(text)),
            metavar="SCOPE/STREAM",
            help="Name of one of its streams.",
            show_default="all of them",
        ),
    ] = None,
) -> None:
    """Show the time window of a reader group in one of its streams, or in all of them."""
    path = f"/v1/reader-groups/{group}/time-window"
    if stream is None:
        windows = session.ask(lambda service: service.get(path, GroupWindows))
        if session.as_json:
            session.show(windows)
        else:
            Output(table_of_windows, as_json=False).page(windows.windows)
        return
    found = session.ask(lambda service: service.get(path, TimeWindowInfo, stream=stream))
    session.show(
        found,
        f"lower     {describe_lower(found)}",
        f"upper     {describe_upper(found)}",
        f"watermark {describe_time(found.watermark)}",
        f"position  {describe_position(found.position)}",
    )


@asks(operators, "lag shop/billing")
def lag(session: Session, group: Group) -> None:
    """Show the progress of a reader group's query: its bound, its lag, and late rows."""
    path = f"/v1/reader-groups/{group}"
    found = session.ask(lambda service: service.get(path, GroupDetails))
    session.show({"group": found.group, "progress": found.progress}, *lines_of_progress(found))


@asks(operators, "why shop/orders")
def why(
    session: Session,
    streams: Streams,
    *,
    since: Since = None,
    at: Annotated[
        int | None,
        typer.Option(
            parser=reading(partial(typed_time, up=True)),
            metavar="TIME",
            help="Say when the watermark reached this event time, and who held it until then.",
        ),
    ] = None,
) -> None:
    """Explain why the watermark is where it is: who holds it, who waits, and what to do.

    Of several streams, the one furthest behind comes first. With --since or --at, show who held it.
    """
    if since is not None or at is not None:
        if (since is not None and at is not None) or len(streams) > 1:
            msg = "give one stream, and either --since or --at"
            raise typer.BadParameter(msg)
        if at is not None:
            show_completion(session, streams[0], at)
        elif since is not None:
            show_holds(session, streams[0], since)
        return

    async def explain(service: Service) -> list[Watermark]:
        paths = map(path_of, dict.fromkeys(streams))
        return await asyncio.gather(*(service.explain(path) for path in paths))

    found = session.ask(explain)
    found.sort(key=lambda seen: (seen.watermark is not None, seen.watermark or 0))
    if session.as_json:
        session.show(found if len(found) > 1 else found[0])
        return
    for seen in found:
        _show_why(session, seen, heading=[] if len(found) == 1 else [f"{seen.stream}:"])


def _show_why(session: Session, seen: Watermark, *, heading: list[str]) -> None:
    explanation = seen.explanation
    session.show(seen, *heading, *lines_of(explanation))
    if holders := holders_of(explanation):
        Output(table_of_writers, as_json=False).page(holders)
    if rest := describe_rest(explanation):
        print(rest)


@asks(operators, "watch shop/orders")
def watch(session: Session, stream: Stream) -> None:
    """Follow the watermark, its holders and the rate of events until the stream is sealed."""
    try:
        session.ask(
            lambda service: watch_stream(service, path_of(stream), as_json=session.as_json),
            log=lambda _: None,  # it waits for longer, and says so itself
        )
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


@asks(
    operators,
    "wait shop/orders 2024-01-01T13:00:00Z --timeout 10m && run-report",
    takes_time=True,
)
def wait(
    session: Session,
    streams: Streams,
    time: AwaitedTime,
    *,
    timeout: Timeout = None,
) -> None:
    """Wait until streams are complete up to a time; explain why if it takes too long."""
    limit = None if timeout is None else timedelta(seconds=timeout)
    waited = list(dict.fromkeys(streams))

    late = dict[StreamName, WatermarkTimeoutError]()

    async def reach(service: Service, stream: StreamName) -> int:
        try:
            return await StreamCalls(service.transport, stream).wait_until(time, limit)
        except WatermarkTimeoutError as error:
            late[stream] = error  # each stream that is not complete is named
            return 0

    async def reach_all(service: Service) -> list[int]:
        return await asyncio.gather(*(reach(service, stream) for stream in waited))

    # A script waits as long as other clients.
    reached = session.ask(reach_all, retry_for=RETRY_FOR, first_contact=None)
    for stream in filter(late.__contains__, waited):
        warn(str(late[stream]))
    if late:
        raise typer.Exit(1)
    found = dict(zip(map(str, waited), reached, strict=True))
    answers: list[dict[str, object]] = [
        {"stream": stream, "time": time, "watermark": watermark}
        for stream, watermark in found.items()
    ]
    lines = [
        f"{stream} is complete below {describe_time(time)}; watermark {describe_time(watermark)}"
        for stream, watermark in found.items()
    ]
    session.show(answers if len(answers) > 1 else answers[0], *lines)


def _list(
    session: Session,
    listing: Callable[[Iterable[_T]], Listing],
    path: str,
    answer: type[_P],
    entries: Callable[[_P], Sequence[_T]],
    **params: object,
) -> None:
    """Print the entries of each page as it comes."""
    output = Output(listing, as_json=session.as_json)

    async def read(service: Service) -> None:
        async for page in service.pages(path, answer, **params):
            output.page(entries(page))

    session.ask(read)
    output.end()
