"""What a writer says of itself, from a shell: register, note time, leave; and dropping one."""

import sys

import typer

from tidegauge_cli.extras import needs_extra

with needs_extra("cli"):
    from tidegauge.event_time import looks_like_seconds
    from tidegauge.names import StreamName
    from tidegauge.wire.streams import StreamInfo
    from tidegauge.wire.writers import (
        LeaveStream,
        NoteTime,
        RegisterWriter,
        TimeNoted,
        WriterAnswer,
        WriterRegistered,
    )
    from tidegauge_cli.options import (
        LOCAL,
        NEGATIVE_TIMES,
        Force,
        Incarnation,
        Json,
        Position,
        Stream,
        Time,
        TimeOption,
        Token,
        Url,
        Writer,
        path_of,
    )
    from tidegauge_cli.output import show_json
    from tidegauge_cli.service import Service, ask
    from tidegauge_cli.tables import describe_time

reporting = typer.Typer()


@reporting.command(epilog="Example: tidegauge register shop/orders nightly-import")
def register(  # noqa: PLR0913 (options, each with a default)
    stream: Stream,
    writer: Writer,
    *,
    time: TimeOption = None,
    force: Force = False,
    url: Url = LOCAL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Register a writer before it writes: the watermark waits for it; its former process is fenced."""
    body = RegisterWriter() if time is None else RegisterWriter(time=time)

    async def post(service: Service) -> WriterRegistered:
        await _check_unit(service, stream, time, force=force)
        path = f"{_path(stream, writer)}/register"
        return await service.post(path, WriterRegistered, body)

    registered = ask(url, token, post)
    if as_json:
        show_json(registered)
        return
    number, watermark = registered.incarnation, describe_time(registered.watermark)
    print(f"{writer} is {registered.state}, incarnation {number}; watermark {watermark}")


@reporting.command(
    "note-time",
    context_settings=NEGATIVE_TIMES,
    epilog="Example: tidegauge note-time shop/orders nightly-import 2024-01-01T00:00:00Z",
)
def note_time(  # noqa: PLR0913 (one report has as many parts)
    stream: Stream,
    writer: Writer,
    time: Time,
    *,
    position: Position = None,
    incarnation: Incarnation = None,
    force: Force = False,
    url: Url = LOCAL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Note time for a writer: whatever it writes after the position is not older."""
    report = NoteTime(time=time, position=position, incarnation=incarnation)

    async def post(service: Service) -> TimeNoted:
        await _check_unit(service, stream, time, force=force)
        return await service.post(f"{_path(stream, writer)}/note-time", TimeNoted, report)

    _show(writer, ask(url, token, post), as_json=as_json)


@reporting.command(epilog="Example: tidegauge leave shop/orders nightly-import")
def leave(  # noqa: PLR0913 (one report has as many parts)
    stream: Stream,
    writer: Writer,
    *,
    time: TimeOption = None,
    position: Position = None,
    incarnation: Incarnation = None,
    force: Force = False,
    url: Url = LOCAL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Take a writer out that will write no more, with a last time if it has one: nobody waits for it."""
    last = LeaveStream(time=time, position=position, incarnation=incarnation)

    async def post(service: Service) -> WriterAnswer:
        await _check_unit(service, stream, time, force=force)
        return await service.post(f"{_path(stream, writer)}/leave", WriterAnswer, last)

    _show(writer, ask(url, token, post), as_json=as_json)


@reporting.command(epilog="Example: tidegauge expire shop/orders gateway-7")
def expire(
    stream: Stream,
    writer: Writer,
    *,
    url: Url = LOCAL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Drop a writer that holds the others up; it returns with a time at or above the mark."""
    path = f"{_path(stream, writer)}/expire"
    dropped = ask(url, token, lambda service: service.post(path, WriterAnswer))
    _show(writer, dropped, as_json=as_json)


async def _check_unit(
    service: Service, stream: StreamName, time: int | None, *, force: bool
) -> None:
    """Refuse what looks like seconds: a noted time cannot be taken back, and the next one is late."""
    if force or time is None or not looks_like_seconds(time):
        return
    config = (await service.get(path_of(stream), StreamInfo)).config
    if config.max_future_skew_ms is not None:
        sys.exit(
            f"tidegauge: {time} lies in early 1970: are these seconds? Times are milliseconds, "
            f"such as {time * 1_000}; --force takes it as it is"
        )


def _show(writer: str, answer: TimeNoted | WriterAnswer, *, as_json: bool) -> None:
    if as_json:
        show_json(answer)
        return
    print(f"{writer} is {answer.state}; watermark {describe_time(answer.watermark)}")
    if answer.hint is not None:
        print(answer.hint)


def _path(stream: StreamName, writer: str) -> str:
    return f"{path_of(stream)}/writers/{writer}"
