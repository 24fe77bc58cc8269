"""The verbs from the beginning of a stream to its end: create, configure, seal, delete."""

import sys

import typer

from tidegauge_cli import settings as setting
from tidegauge_cli.extras import needs_extra

with needs_extra("cli"):
    from tidegauge.errors import PreconditionFailedError
    from tidegauge.wire.streams import (
        CreateStream,
        SealedStream,
        SealStream,
        StreamConfig,
        StreamInfo,
    )
    from tidegauge_cli.options import LOCAL, Json, Position, Stream, Token, Url, Yes, path_of
    from tidegauge_cli.output import show_json
    from tidegauge_cli.service import Service, ask
    from tidegauge_cli.tables import describe_position

lifecycle = typer.Typer()


@lifecycle.command(
    epilog="Example: tidegauge create shop/orders --log external --segments 4 --min-writers 2"
)
def create(  # noqa: PLR0913 (options, each with a default)
    stream: Stream,
    *,
    segments: setting.Segments = None,
    log: setting.Log = None,
    min_writers: setting.MinWriters = None,
    aggregation_timeout_ms: setting.AggregationTimeoutMs = None,
    mark_interval_ms: setting.MarkIntervalMs = None,
    mark_resolution_ms: setting.MarkResolutionMs = None,
    mark_retention_ms: setting.MarkRetentionMs = None,
    writer_retention_ms: setting.WriterRetentionMs = None,
    max_future_skew_ms: setting.MaxFutureSkewMs = None,
    max_segments: setting.MaxSegments = None,
    scaling: setting.Scaling = None,
    url: Url = LOCAL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Create a stream; fine if it is there already with the given settings."""
    wanted = setting.given(
        segments,
        log,
        min_writers,
        aggregation_timeout_ms,
        mark_interval_ms,
        mark_resolution_ms,
        mark_retention_ms,
        writer_retention_ms,
        max_future_skew_ms,
        max_segments,
        scaling,
    )

    async def put(service: Service) -> tuple[StreamInfo, str]:
        path, body = path_of(stream), CreateStream(**wanted)
        try:
            return await service.put(path, StreamInfo, body, only_new=True), "created"
        except PreconditionFailedError:
            return await service.put(path, StreamInfo, body), "unchanged"

    found, outcome = ask(url, token, put)
    if as_json:
        show_json(found)
    else:
        count = len(found.topology.segments)
        print(f"{stream} is {outcome}: {found.config.log}, {count} segment{'s'[: count != 1]}")


@lifecycle.command(
    epilog="Example: tidegauge configure shop/orders --aggregation-timeout-ms null"
)
def configure(  # noqa: PLR0913 (options, each with a default)
    stream: Stream,
    *,
    min_writers: setting.MinWriters = None,
    aggregation_timeout_ms: setting.AggregationTimeoutMs = None,
    mark_interval_ms: setting.MarkIntervalMs = None,
    mark_resolution_ms: setting.MarkResolutionMs = None,
    mark_retention_ms: setting.MarkRetentionMs = None,
    writer_retention_ms: setting.WriterRetentionMs = None,
    max_future_skew_ms: setting.MaxFutureSkewMs = None,
    max_segments: setting.MaxSegments = None,
    scaling: setting.Scaling = None,
    url: Url = LOCAL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Change settings of a stream; what is left out stays as it is."""
    change = setting.given(
        min_writers,
        aggregation_timeout_ms,
        mark_interval_ms,
        mark_resolution_ms,
        mark_retention_ms,
        writer_retention_ms,
        max_future_skew_ms,
        max_segments,
        scaling,
    )
    if not change:
        msg = "nothing to change; name a setting, such as --min-writers 2"
        raise typer.BadParameter(msg)

    async def patch(service: Service) -> tuple[StreamInfo, StreamInfo]:
        calls = service.stream(stream)
        return await calls.describe(), await calls.configure(**change)

    before, after = ask(url, token, patch)
    if as_json:
        show_json(after)
        return
    for line in _differences(before.config, after.config) or ["unchanged"]:
        print(f"{stream}: {line}")


@lifecycle.command(epilog="Example: tidegauge seal shop/orders --position 0:120,1:45")
def seal(  # noqa: PLR0913 (options, each with a default)
    stream: Stream,
    *,
    position: Position = None,
    yes: Yes = False,
    url: Url = LOCAL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """End a stream for ever, with a final mark; an external log needs its end position."""
    _confirm(f"Nothing can be written to {stream} afterwards. Seal it?", yes=yes)

    async def post(service: Service) -> SealedStream:
        body = SealStream(position=position)
        return await service.post(f"{path_of(stream)}/seal", SealedStream, body)

    sealed = ask(url, token, post)
    if as_json:
        show_json(sealed)
    else:
        print(f"{stream} is sealed at {describe_position(sealed.mark.cut)}")


@lifecycle.command(epilog="Example: tidegauge delete shop/orders")
def delete(stream: Stream, *, yes: Yes = False, url: Url = LOCAL, token: Token = None) -> None:
    """Delete a stream with its events, marks and writers."""
    _confirm(f"The events, marks and writers of {stream} are lost then. Delete it?", yes=yes)
    ask(url, token, lambda service: service.stream(stream).delete())
    print(f"{stream} is deleted")


def _confirm(question: str, *, yes: bool) -> None:
    if yes:
        return
    try:
        typer.confirm(question, abort=True, err=True)
    except typer.Abort:  # also where there is nobody to ask
        sys.exit("tidegauge: nothing was done; with --yes it is done without asking")


def _differences(before: StreamConfig, after: StreamConfig) -> list[str]:
    old, new = before.model_dump(), after.model_dump()
    return [
        f"{name} is {_shown(value)}, was {_shown(old[name])}"
        for name, value in new.items()
        if value != old[name]
    ]


def _shown(value: object) -> str:
    return "null" if value is None else str(value)
