"""Verbs from a stream's beginning to its end: create, configure, scale, truncate, seal, delete."""

import sys
from functools import partial
from typing import Annotated

import typer

from tidegauge.client.stream_calls import StreamCalls
from tidegauge.errors import PreconditionFailedError
from tidegauge.json_text import show_json
from tidegauge.wire.streams import (
    CreateStream,
    ScaledStream,
    StreamInfo,
)
from tidegauge_cli.options import (
    Position,
    Stream,
    TimeOption,
    Yes,
    flag,
    in_range,
    path_of,
    ranges,
    reading,
    segments,
)
from tidegauge_cli.service import Service, Session, asks, warn
from tidegauge_cli.settings import CHANGED, CREATED, Setting
from tidegauge_cli.tables import describe_position

lifecycle = typer.Typer()


@asks(
    lifecycle,
    "create shop/orders --log external --segments 4 --min-writers 2",
    settings=CREATED,
)
def create(session: Session, stream: Stream, **settings: Setting) -> None:
    """Create a stream; idempotent: succeeds if the stream exists with these settings."""
    body = CreateStream(**_given(settings))

    async def put(service: Service) -> tuple[StreamInfo, str]:
        path, request = path_of(stream), service.transport.request
        send = partial(request, "PUT", path, answer=StreamInfo, retry=True, body=body)
        try:
            return await send(headers={"if-none-match": "*"}), "created"
        except PreconditionFailedError:
            return await send(), "unchanged"

    found, outcome = session.ask(put)
    count = len(found.topology.segments)
    session.show(
        found,
        f"{stream} is {outcome}: {found.config.log}, {count} segment{'s'[: count != 1]}",
    )


@asks(lifecycle, "configure shop/orders --aggregation-timeout-ms null", settings=CHANGED)
def configure(session: Session, stream: Stream, **settings: Setting) -> None:
    """Change settings of a stream; settings that you leave out stay as they are."""
    change = _given(settings)
    if not change:
        msg = "nothing to change; name a setting, such as --min-writers 2"
        raise typer.BadParameter(msg)

    async def patch(service: Service) -> tuple[StreamInfo, StreamInfo]:
        calls = StreamCalls(service.transport, stream)
        return await calls.describe(), await calls.configure(**change)

    before, after = session.ask(patch)
    old = before.config.model_dump()
    changes = [
        f"{stream}: {name} is {show_json(value)}, was {show_json(old[name])}"
        for name, value in after.config.model_dump().items()
        if value != old[name]
    ]
    session.show(after, *(changes or [f"{stream}: unchanged"]))


@asks(lifecycle, "scale shop/orders --split 0")
def scale(
    session: Session,
    stream: Stream,
    *,
    split: Annotated[
        int | None,
        typer.Option(
            parser=in_range(0),
            metavar="SEGMENT",
            help="Split this segment into equal parts.",
        ),
    ] = None,
    parts: Annotated[
        int,
        typer.Option(parser=in_range(2), metavar="NUMBER", help="Number of parts for --split."),
    ] = 2,
    merge: Annotated[
        frozenset[int] | None,
        typer.Option(
            parser=reading(segments), metavar="0,1", help="Merge these neighbouring segments."
        ),
    ] = None,
    seal: Annotated[
        frozenset[int] | None,
        typer.Option(
            parser=reading(segments), metavar="0,1", help="Seal these segments; needs --into."
        ),
    ] = None,
    into: Annotated[
        frozenset[tuple[float, float]] | None,
        typer.Option(
            parser=reading(ranges),
            metavar="0-0.3,0.3-1",
            help="Key ranges of the segments that replace those of --seal.",
        ),
    ] = None,
) -> None:
    """Split or merge segments; writers and readers keep running and follow by themselves."""
    if [split is not None, merge is not None, seal is not None].count(True) != 1 or (
        (seal is None) != (into is None)
    ):
        msg = "give one of --split SEGMENT, --merge 0,1, and --seal 0,1 with --into 0-0.3,0.3-1"
        raise typer.BadParameter(msg)

    async def post(service: Service) -> ScaledStream:
        calls = StreamCalls(service.transport, stream)
        if split is not None:
            return await calls.split(split, parts)
        if merge is not None:
            return await calls.merge(merge)
        return await calls.scale(sorted(seal or ()), sorted(into or ()))

    scaled = session.ask(post)
    topology = scaled.topology.to_topology()
    sealed = sorted({number for one in scaled.segments for number in one.predecessors})
    session.show(
        scaled,
        *(f"segment {n} is sealed at {topology[n].sealed_length}" for n in sealed),
        *(
            f"segment {one.number} owns keys from {one.low:g} to {one.high:g}, after "
            f"{', '.join(map(str, one.predecessors))}"
            for one in scaled.segments
        ),
    )


@asks(lifecycle, "truncate shop/orders --time 2024-01-01T00:00:00Z")
def truncate(
    session: Session,
    stream: Stream,
    *,
    cut: Position = None,
    time: TimeOption = None,
    force: Annotated[
        bool, flag("--force", help="Also drop events that reader groups still need.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Drop the oldest events of a stream and their marks, before a stream cut or a time."""
    if (cut is None) == (time is None):
        msg = "give either --cut 0:40,1:12 or --time TIME"
        raise typer.BadParameter(msg)
    _confirm(f"This permanently drops the oldest events of {stream}. Drop them?", yes=yes)
    truncated = session.ask(
        lambda service: StreamCalls(service.transport, stream).truncate(
            cut=cut, time=time, force=force
        )
    )
    session.show(truncated, f"{stream} begins at {describe_position(truncated.first_cut)}")


@asks(lifecycle, "seal shop/orders --position 0:120,1:45")
def seal(
    session: Session, stream: Stream, *, position: Position = None, yes: Yes = False
) -> None:
    """End a stream permanently, with a final mark; an external log needs its end position."""
    _confirm(f"Nothing can be written to {stream} afterwards. Seal it?", yes=yes)
    sealed = session.ask(lambda service: StreamCalls(service.transport, stream).seal(position))
    session.show(sealed, f"{stream} is sealed at {describe_position(sealed.mark.cut)}")


@asks(lifecycle, "delete shop/orders")
def delete(session: Session, stream: Stream, *, yes: Yes = False) -> None:
    """Delete a stream with its events, marks and writers."""
    _confirm(
        f"This permanently deletes the events, marks and writers of {stream}. Delete it?",
        yes=yes,
    )
    session.ask(lambda service: StreamCalls(service.transport, stream).delete())
    session.show({"stream": str(stream), "deleted": True}, f"{stream} is deleted")


def _given(settings: dict[str, Setting]) -> dict[str, object]:
    return {name: value for one in settings.values() if one for name, value in one.items()}


def _confirm(question: str, *, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        warn(f"{question} No terminal can answer, so nothing was done; pass --yes")
        sys.exit(1)
    try:
        typer.confirm(question, abort=True, err=True)
    except typer.Abort:
        sys.exit("tidegauge: nothing was done; pass --yes to skip the confirmation")
