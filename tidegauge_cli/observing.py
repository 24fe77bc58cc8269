"""Noting time for producers that nobody can change."""

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine, Mapping, Sized
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from pydantic_core import to_json

from tidegauge.event_time import describe_span
from tidegauge_cli.extras import needs_extra
from tidegauge_cli.options import Stream, one_of
from tidegauge_cli.service import Service, Session, asks, warn
from tidegauge_cli.tables import describe_time

if TYPE_CHECKING:
    from writer_client.observing.watching import Progress, Watching

_T = TypeVar("_T")
observe = typer.Typer(help="Note time for producers you cannot change.")
_FIRST_CONTACT = timedelta(seconds=5)
"""Then it reads on: what it notes next says more than what it could not say."""
_GUESS = (
    "this is an estimate, made once for all readers: events later than it expects are late. "
    "tidegauge why names its writers; replace them one by one with producers that note time "
    "themselves (--except)"
)
_EXACT = (
    "each mark is as exact as the promises of the one feed that writes this topic: another feed or producer on "
    "the topic breaks them"
)
_DEFAULTS = {"--by": "partition", "--idle": "2m", "--hold-limit": "10m"}


@observe.callback()
def _only_a_group() -> None:
    """Note time for producers you cannot change."""


@asks(
    observe,
    "observe kafka shop/orders --bootstrap kafka:9092 --by header:producer --idle 2m",
)
def kafka(
    session: Session,
    stream: Stream,
    *,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            envvar="TIDEGAUGE_KAFKA_BOOTSTRAP", help="Brokers, HOST:PORT.", show_default=False
        ),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option(help="Name of the topic.", show_default="the stream's own name"),
    ] = None,
    promises: Annotated[
        str | None,
        typer.Option(
            metavar="cockroachdb|ticdc|json:/PATH[:UNIT]",
            help="Note the promises that the feed writes to the topic, and estimate nothing. UNIT of a "
            "PATH is ms, us, ns, s, hlc or tso; without it, milliseconds or RFC 3339.",
            show_default=False,
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="partition|key|header:NAME",
            help="What identifies a writer: PARTITION, or VALUE.PARTITION.",
            show_default=_DEFAULTS["--by"],
        ),
    ] = None,
    event_time: Annotated[
        str | None,
        typer.Option(
            metavar="timestamp|header:NAME|json:/PATH",
            help="Where the time of an event is: milliseconds, or RFC 3339. With --promises it has "
            "the unit of the promises, and is only compared with them.",
            show_default="timestamp; with --promises none",
        ),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            metavar="lag:5m|bounded:5m|quantile:0.999",
            help="How time is estimated: the clock minus a lag, the newest event minus a delay, or "
            "minus a quantile of how late events were.",
            show_default="lag:5m from the end, bounded:5m from the beginning",
        ),
    ] = None,
    idle: Annotated[
        str | None,
        typer.Option(
            metavar="SPAN|never",
            help="Remove a writer that is silent for this long: 90s, 2m, 1h.",
            show_default=_DEFAULTS["--idle"],
        ),
    ] = None,
    hold_limit: Annotated[
        str | None,
        typer.Option(
            metavar="SPAN|never",
            help="Remove a writer that holds the others for this long, unless it catches up.",
            show_default=_DEFAULTS["--hold-limit"],
        ),
    ] = None,
    excepted: Annotated[
        list[str] | None,
        typer.Option(
            "--except",
            metavar="NAME",
            help="Leave out a writer, or a VALUE, that notes time by itself; repeatable.",
        ),
    ] = None,
    since: Annotated[
        str,
        typer.Option(
            "--from",
            parser=one_of(("beginning", "end")),
            metavar="beginning|end",
            help="Where to start in partitions without a known writer.",
        ),
    ] = "end",
    until: Annotated[
        str | None,
        typer.Option(
            parser=one_of(("end",)),
            metavar="end",
            help="Stop at the current end of the topic.",
            show_default="never",
        ),
    ] = None,
    kafka_setting: Annotated[
        list[str] | None,
        typer.Option(
            "--kafka", metavar="NAME=VALUE", help="Setting of librdkafka; repeatable."
        ),
    ] = None,
    kafka_config: Annotated[
        Path | None,
        typer.Option(
            envvar="TIDEGAUGE_KAFKA_CONFIG",
            help="File of settings of librdkafka, one on each line; for secrets, which a command line would show.",
        ),
    ] = None,
) -> None:
    """Read a topic, and note times for its writers, once for all readers: estimates, or promises.

    Each writer notes the lowest of all estimates. With --promises each partition is a writer, and
    notes the promises in the topic. Several observers share the partitions as a
    consumer group; nothing is committed to Kafka. Ctrl-C ends it; the writers stay members of the
    stream, and the next start continues from what they noted.
    """
    with needs_extra("kafka"):
        from writer_client.observing import rules  # noqa: PLC0415 (says which is missing)
        from writer_client.observing.kafka import KafkaObserver  # noqa: PLC0415
        from writer_client.observing.watching import Watching  # noqa: PLC0415
    guess = strategy or ("lag:5m" if since == "end" else "bounded:5m")
    watching = Watching(
        stream=stream,
        topic=topic or stream.stream,
        value_of=_read("--by", rules.parse_by, by or _DEFAULTS["--by"]),
        time_of=_read("--event-time", rules.parse_time_of, event_time or "timestamp"),
        promise_of=None,
        guess=_read("--strategy", rules.parse_guess, guess),
        idle=_read("--idle", rules.parse_limit, idle or _DEFAULTS["--idle"]),
        hold_limit=_read(
            "--hold-limit", rules.parse_limit, hold_limit or _DEFAULTS["--hold-limit"]
        ),
        excepted=frozenset(excepted or ()),
        since="beginning" if since == "beginning" else "end",
        until_end=until is not None,
    )
    if promises is not None:
        given = {"--by": by, "--strategy": strategy, "--idle": idle, "--hold-limit": hold_limit}
        _refuse_estimates([option for option, value in given.items() if value is not None])
        promise_of, unit = _read("--promises", rules.parse_promises, promises)
        time_of = None if event_time is None else rules.parse_time_of(event_time, unit)
        watching = watching._replace(
            promise_of=promise_of, time_of=time_of, idle=None, hold_limit=None
        )
    settings = _settings(kafka_config, kafka_setting or [], bootstrap)
    # What librdkafka says of outages is reported once, by the observer; the rest is about which of its
    # clients takes which setting.
    logging.getLogger("tidegauge.kafka").setLevel(logging.CRITICAL)
    warn(_GUESS if promises is None else _EXACT)

    async def run(service: Service) -> int:
        observer = KafkaObserver(
            service.transport,
            watching,
            settings=settings,
            show=lambda progress: _show(session, watching, progress),
            warn=warn,
        )
        return await _until_signal(observer.run, observer.stop)

    ended_by = session.ask(run, first_contact=_FIRST_CONTACT)
    warn(
        f"ended; the writers stay members of {stream}, and the next start continues from there"
    )
    raise typer.Exit(0 if ended_by == 0 else 128 + ended_by)


def _refuse_estimates(options: list[str]) -> None:
    if options:
        msg = (
            f"{', '.join(options)} cannot be used with --promises: each partition notes what its feed promises "
            "there, so nothing is estimated and no writer leaves; remove these options"
        )
        raise typer.BadParameter(msg)


async def _until_signal(
    run: Callable[[], Coroutine[None, None, None]], stop: Callable[[], None]
) -> int:
    """Run to the end, or until a signal stops it, whose number is returned; the second one kills."""
    loop, caught = asyncio.get_running_loop(), [0]

    def catch(number: int) -> None:
        caught[0] = number
        loop.remove_signal_handler(number)
        stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, catch, number)
    await run()
    return caught[0]


def _show(session: Session, watching: "Watching", progress: "Progress") -> None:
    counts = progress.counts
    seen, silent = len(counts.seen), len(counts.silent)
    share = f"{silent} of {seen} sources ({silent / max(seen, 1):.0%})"
    document = {
        "stream": str(watching.stream),
        "writers": progress.writers,
        "held_by": progress.holding,
        "left_out": progress.left_out,
        "events": counts.events,
        "behind": progress.behind,
        "open_transactions": progress.open_transactions,
        "watermark": progress.watermark,
        "sources": seen,
        "silent_sources": silent,
        "late": counts.late,
        "unreadable": counts.unreadable,
        "unreadable_at": progress.unreadable,
    }
    is_exact = watching.promise_of is not None
    if is_exact:
        document |= {"promises": counts.promises, "promises_repeated": counts.fallen}
    if session.as_json:
        print(to_json(document).decode(), flush=True)
        return
    parts = [
        f"{watching.stream}: {progress.writers} writers, {counts.events} events",
        f"{progress.behind} behind the end",
        f"watermark {describe_time(progress.watermark)}{'' if is_exact else ' (an estimate)'}",
    ]
    if is_exact:
        parts.append(f"{counts.promises} promises, {counts.fallen} below one before")
    if opened := progress.open_transactions:
        parts.append(
            f"a transaction is open in partition {min(opened)}{_more(opened)}, and what follows it waits"
        )
    without = {"without": "a promise"} if is_exact else {}
    parts += [
        f"{what} {_behind(those, **without)}"
        for what, those in (("held by", progress.holding), ("left out:", progress.left_out))
        if those
    ]
    if watching.idle is not None:
        idle = describe_span(watching.idle // timedelta(milliseconds=1))
        parts.append(f"{share} have been silent for longer than {idle}")
    parts.append(
        f"{counts.late} {'below a promise' if is_exact else 'came later than estimated'}"
    )
    if progress.unreadable is not None:
        parts.append(
            f"{counts.unreadable} without a readable time, the first at {progress.unreadable}"
        )
    print("; ".join(parts), flush=True)


def _behind(those: Mapping[str, int | None], **without: str) -> str:
    """Name the one that is farthest behind, and how many more there are."""
    from writer_client.observing.watching import describe_behind  # noqa: PLC0415 (it runs already)

    writer = max(those, key=lambda one: (those[one] is None, those[one] or 0))
    return f"{writer!r}, {describe_behind(those[writer], **without)}{_more(those)}"


def _more(those: Sized) -> str:
    return f" (and {len(those) - 1} more)" if len(those) > 1 else ""


def _settings(file: Path | None, given: list[str], bootstrap: str | None) -> dict[str, str]:
    """Join the settings of a file with those typed, which win; no value is ever shown."""
    lines = [] if file is None else _lines(file)
    settings = {}
    for line in [*lines, *given]:
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            source = f"in {file}" if line in lines else "of --kafka"
            msg = f"a setting {source} has no '='; write NAME=VALUE"
            raise typer.BadParameter(msg)
        settings[name.strip()] = value.strip()
    if bootstrap is not None:
        settings["bootstrap.servers"] = bootstrap
    if "bootstrap.servers" not in settings:
        msg = "no broker is named; give one, such as --bootstrap kafka:9092"
        raise typer.BadParameter(msg)
    return settings


def _lines(file: Path) -> list[str]:
    try:
        text = file.read_text()
    except OSError as error:
        msg = f"{file} cannot be read: {error.strerror}"
        raise typer.BadParameter(msg) from error
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _read(option: str, parse: Callable[[str], _T], text: str) -> _T:
    try:
        return parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=repr(option)) from error
