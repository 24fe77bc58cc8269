"""What a writer says of itself, from a shell: register, note time, leave; and dropping one."""

import sys
from typing import TypeVar

import typer

from tidegauge.event_time import describe_span, looks_like_seconds
from tidegauge.names import StreamName
from tidegauge.wire.streams import StreamInfo
from tidegauge.wire.writers import (
    LeaveStream,
    NoteTime,
    RegisterWriter,
    TimeNoted,
    WriterAnswer,
    WriterDescription,
    WriterRegistered,
)
from tidegauge_cli.options import (
    Ended,
    Force,
    Incarnation,
    Position,
    Stream,
    Time,
    TimeOption,
    Writer,
    path_of,
)
from tidegauge_cli.service import Service, Session, asks
from tidegauge_cli.tables import describe_time

_A = TypeVar("_A", bound=TimeNoted)
reporting = typer.Typer()


@asks(reporting, "register shop/orders import-1")
def register(
    session: Session,
    stream: Stream,
    writer: Writer,
    *,
    time: TimeOption = None,
    force: Force = False,
) -> None:
    """Register a writer before it writes; the watermark waits for it, and a former process is fenced."""
    body, path = RegisterWriter.new(time), _path(stream, writer, "register")
    registered = _report(session, path, body, WriterRegistered, force=force)
    number, watermark = registered.incarnation, describe_time(registered.watermark)
    session.show(
        registered,
        f"{writer} is {registered.state}, incarnation {number}; watermark {watermark}",
        *_advice(registered),
    )


@asks(reporting, "note-time shop/orders import-1 2024-01-01T00:00:00Z", takes_time=True)
def note_time(
    session: Session,
    stream: Stream,
    writer: Writer,
    time: Time,
    *,
    position: Position = None,
    incarnation: Incarnation = None,
    force: Force = False,
) -> None:
    """Note a time for a writer: it promises to write nothing older after the position."""
    body = NoteTime(time=time, position=position, incarnation=incarnation)
    path = _path(stream, writer, "note-time")
    _show(session, writer, _report(session, path, body, TimeNoted, force=force))


@asks(reporting, "leave shop/orders import-1")
def leave(
    session: Session,
    stream: Stream,
    writer: Writer,
    *,
    time: TimeOption = None,
    position: Position = None,
    incarnation: Incarnation = None,
    ended: Ended = False,
    force: Force = False,
) -> None:
    """Remove a writer that writes no more; the watermark no longer waits for it."""
    if ended and incarnation is None:  # of a dead writer, which nobody else can name
        path = _path(stream, writer, "")
        known = session.ask(lambda service: service.get(path, WriterDescription))
        incarnation = known.incarnation or None
    body = LeaveStream(time=time, position=position, incarnation=incarnation, ended=ended)
    path = _path(stream, writer, "leave")
    answer = _report(session, path, body, WriterAnswer, force=force)
    others = ", ".join(answer.not_ended)
    _show(
        session,
        writer,
        answer,
        others and f"the stream is sealed once these have ended: {others}",
    )


@asks(reporting, "expire shop/orders gateway-7")
def expire(session: Session, stream: Stream, writer: Writer) -> None:
    """Drop a writer that holds the watermark; it returns with a time above the watermark."""
    path = _path(stream, writer, "expire")
    _show(session, writer, session.ask(lambda service: service.post(path, WriterAnswer)))


def _advice(registered: WriterRegistered) -> list[str]:
    """Return where the writer continues, and how often it has to report."""
    lines = []
    if registered.time is not None:
        since = describe_time(registered.time)
        lines.append(
            f"it continues at {since}: events that it writes from there on are not late"
        )
    if registered.beat_ms is not None:
        every = describe_span(registered.beat_ms)
        lines.append(f"repeat the last time every {every} to avoid being dropped for silence")
    return lines


def _report(
    session: Session,
    path: str,
    body: RegisterWriter | NoteTime | LeaveStream,
    answer: type[_A],
    *,
    force: bool,
) -> _A:
    """Refuse what looks like seconds: a noted time cannot be taken back, and the next one is late."""

    async def post(service: Service) -> _A:
        if body.time is not None and looks_like_seconds(body.time) and not force:
            stream = await service.get(path.partition("/writers/")[0], StreamInfo)
            if stream.config.max_future_skew_ms is not None:
                sys.exit(
                    f"tidegauge: {body.time} lies in early 1970: are these seconds? Times are "
                    f"milliseconds, such as {body.time * 1_000}; --force accepts it as it is"
                )
        return await service.post(path, answer, body)

    return session.ask(post)


def _show(session: Session, writer: str, answer: TimeNoted, more: str = "") -> None:
    said = f"{writer} is {answer.state}; watermark {describe_time(answer.watermark)}"
    session.show(answer, said, *filter(None, [more, answer.hint]))


def _path(stream: StreamName, writer: str, verb: str) -> str:
    return f"{path_of(stream)}/writers/{writer}/{verb}".rstrip("/")
