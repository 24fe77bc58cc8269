"""`tidegauge demo`, alone on this machine or as parts of a cluster."""

import sys
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Annotated, Any

import typer

from tidegauge.names import StreamName
from tidegauge_cli.demo.supervision import supervise
from tidegauge_cli.extras import needs_extra
from tidegauge_cli.options import LOCAL, Token, Url, in_range, reading

demo = typer.Typer()


def _option(name: str, explained: str, **how: Any) -> Any:  # noqa: ANN401 (typer's)
    return typer.Option(envvar=f"TIDEGAUGE_DEMO_{name}", help=explained, **how)


def _speed(explained: str) -> Any:  # noqa: ANN401 (typer's)
    return _option("SPEED", explained, parser=in_range(float, 1), metavar="NUMBER")


_MEANS = "How many seconds of flights pass in one second"
Days = Annotated[
    int,
    _option(
        "DAYS",
        "Number of days, from 1 January 2013 on.",
        parser=in_range(int, 1, 365),
        metavar="1..365",
    ),
]
Batches = Annotated[
    int,
    typer.Option(
        help="Maximum number of batches, roughly: with fewer, each waits longer.",
        parser=in_range(int, 1, 1_000),
        metavar="1..1000",
    ),
]
Stream = Annotated[
    StreamName,
    _option(
        "STREAM",
        "Name of the stream.",
        parser=reading(StreamName.parse),
        metavar="SCOPE/STREAM",
    ),
]
Bootstrap = Annotated[
    str | None,
    _option("BOOTSTRAP", "Kafka brokers that hold the flights.", metavar="HOST:PORT"),
]
_INTENT = """\
Flights of 2013 are replayed through Tidegauge into a query of Spark; four queries with Spark's
own watermark read the same batches again; and all five are compared with the truth.
This takes two to three minutes on two cores. Ctrl-C ends it.
"""
_KAFKA_INTENT = """\
Flights of 2013 are replayed through Kafka into a query of Spark with Tidegauge's source; Spark's
own Kafka source reads the same batches again, once with Tidegauge's watermark and three times
with its own; and all five are compared with the truth.
This takes four to five minutes on two cores. Ctrl-C ends it.
"""
_LAKE_INTENT = """\
Flights of 2013 are replayed through Tidegauge into three Delta tables: as reported, by hour and by
day. Each table is written by a process of its own, and one of these is killed and started again.
All three are compared with the truth at every version, and with a chain under Spark's own watermark.
This takes four to five minutes on two cores. Ctrl-C ends it.
"""
_STOPPED = "stopped; nothing is left running"
FLIGHTS: Any = "demo/flights"  # typer reads a default as it reads what is typed


@demo.callback(invoke_without_command=True, epilog="Example: tidegauge demo --days 7")
def run(
    context: typer.Context,
    *,
    days: Days = 3,
    speed: Annotated[float, _speed(f"{_MEANS}, at most: they wait for Spark.")] = 35_000,
    # Each takes all five queries a second and a half on two cores.
    batches: Batches = 80,
    output: Annotated[
        Path, typer.Option(help="Folder for the table, the picture and the results.")
    ] = Path("tidegauge-demo"),
) -> None:
    """Replay real flights through the service and Spark, and compare the results with the truth."""
    if context.invoked_subcommand is not None:
        return
    sys.exit(supervise(partial(_run, days, speed, batches, output), stopped=_STOPPED))


def _run(days: int, speed: float, batches: int, output: Path) -> int:
    print(_INTENT, flush=True)  # what is imported next takes seconds
    with needs_extra("all"):
        from tidegauge_cli.demo.run import run_demo  # noqa: PLC0415 (says which is missing)
    return run_demo(days=days, speed=speed, batches=batches, output=output)


@demo.command(epilog="Example: tidegauge demo kafka --bootstrap kafka:9092 --days 7")
def kafka(
    *,
    days: Days = 3,
    speed: Annotated[float, _speed(f"{_MEANS}, at most: they wait for Spark.")] = 35_000,
    batches: Batches = 25,
    bootstrap: Bootstrap = None,
    output: Annotated[
        Path, typer.Option(help="Folder for the table, the picture and the results.")
    ] = Path("tidegauge-demo-kafka"),
) -> None:
    """Replay real flights through Kafka and Spark, and compare the results with the truth.

    Without --bootstrap it starts a broker, which needs Maven the first time. At your brokers it
    creates two topics, tidegauge-demo-…, and deletes them.
    """
    topic = f"tidegauge-demo-{token_hex(4)}"
    work = partial(_run_kafka, days, speed, batches, bootstrap, topic, output)
    tidy = partial(_delete_topics, topic, bootstrap)
    sys.exit(supervise(work, stopped=_STOPPED, tidy=tidy))


def _run_kafka(  # noqa: PLR0913, PLR0917 (options)
    days: int, speed: float, batches: int, bootstrap: str | None, topic: str, output: Path
) -> int:
    print(_KAFKA_INTENT, flush=True)  # what is imported next takes seconds
    with needs_extra("all"):
        from tidegauge_cli.demo.kafka.run import KafkaDemo, run_kafka_demo  # noqa: PLC0415 (the same)
    return run_kafka_demo(KafkaDemo(days, speed, batches, bootstrap, topic, output))


@demo.command(epilog="Example: tidegauge demo lake --jars .venv-lake/jars --days 3")
def lake(
    *,
    days: Days = 7,
    speed: Annotated[float, _speed(f"{_MEANS}, at most: they wait for Spark.")] = 35_000,
    batches: Batches = 60,
    jars: Annotated[
        Path | None,
        typer.Option(
            envvar="TIDEGAUGE_LAKE_JARS",
            help="Folder with the jars of Delta, for the Spark that is installed.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option(help="Folder for the comparison and what Spark says.")
    ] = Path("tidegauge-demo-lake"),
) -> None:
    """Replay real flights into a chain of Delta tables, and compare them with the truth.

    `make demo-lake` runs it in an environment of its own: no release of Delta knows Spark 4.3.
    """
    sys.exit(
        supervise(partial(_run_lake, days, speed, batches, jars, output), stopped=_STOPPED)
    )


def _run_lake(days: int, speed: float, batches: int, jars: Path | None, output: Path) -> int:
    print(_LAKE_INTENT, flush=True)  # what is imported next takes seconds
    with needs_extra("controller,flights,spark,tables,writer"):
        from tidegauge_cli.demo.lake.run import LakeDemo, run_lake_demo  # noqa: PLC0415 (the same)
    return run_lake_demo(LakeDemo(days, speed, batches, jars, output))


def _delete_topics(topic: str, bootstrap: str | None) -> None:
    """Delete the topics of a demo that was killed, at brokers that live on."""
    if bootstrap is not None:
        from tidegauge_cli.demo.kafka.topic import BATCHES, FlightTopic  # noqa: PLC0415 (takes a moment)
        from tidegauge_cli.demo.waiting import DemoFailedError  # noqa: PLC0415 (the same)

        try:
            for name in (topic, topic + BATCHES):
                FlightTopic(name, {"bootstrap.servers": bootstrap}).delete(within_s=2)
        except DemoFailedError as error:
            print(error)


@demo.command(epilog="Example: tidegauge demo producer --url http://gauge:8470 --days 7")
def producer(  # noqa: PLR0913 (options, each with a default)
    *,
    url: Url = LOCAL,
    token: Token = None,
    stream: Stream = FLIGHTS,
    days: Days = 31,
    speed: Annotated[float, _speed(f"{_MEANS}.")] = 35_000,
    bootstrap: Bootstrap = None,
) -> None:
    """Only write: replay the flights into a stream of a service, and seal it.

    With --bootstrap the flights go to a topic with the stream's own name, which is created if it
    does not exist, and their time goes to the stream.
    """
    work = partial(_produce, url, token, stream, days, speed, bootstrap)
    sys.exit(supervise(work, stopped="stopped; start it again to continue"))


def _produce(  # noqa: PLR0913, PLR0917 (options)
    url: str,
    token: str | None,
    stream: StreamName,
    days: int,
    speed: float,
    bootstrap: str | None,
) -> int:
    with needs_extra("writer,flights"):
        from tidegauge_cli.demo.address import StreamAddress  # noqa: PLC0415
        from tidegauge_cli.demo.producer import run_producer  # noqa: PLC0415
    address = StreamAddress(url, str(stream), token)
    return run_producer(address, days=days, speed=speed, topic=_topic(stream, bootstrap))


@demo.command(epilog="Example: tidegauge demo pipeline --url http://gauge:8470 --days 7")
def pipeline(  # noqa: PLR0913 (options, each with a default)
    *,
    url: Url = LOCAL,
    token: Token = None,
    stream: Stream = FLIGHTS,
    days: Days = 31,
    master: Annotated[str, _option("MASTER", "Master URL of Spark.")] = "local[2]",
    output: Annotated[
        Path,
        _option(
            "OUTPUT",
            "Folder for the checkpoint and the windows; the whole cluster must share it.",
        ),
    ] = Path("tidegauge-demo"),
    bootstrap: Bootstrap = None,
) -> None:
    """Only read: count the flights of a stream until it is sealed, and check the windows."""
    work = partial(_read, url, token, stream, days, master, output, bootstrap)
    sys.exit(supervise(work, stopped="stopped; start it again to continue from its checkpoint"))


def _read(  # noqa: PLR0913, PLR0917 (options)
    url: str,
    token: str | None,
    stream: StreamName,
    days: int,
    master: str,
    output: Path,
    bootstrap: str | None,
) -> int:
    with needs_extra("spark,flights"):
        from tidegauge_cli.demo.address import StreamAddress  # noqa: PLC0415
        from tidegauge_cli.demo.pipeline import run_pipeline  # noqa: PLC0415
    address = StreamAddress(url, str(stream), token)
    topic = _topic(stream, bootstrap)
    return run_pipeline(address, days=days, master=master, output=output, topic=topic)


def _topic(stream: StreamName, bootstrap: str | None) -> Any:  # noqa: ANN401 (imported late)
    if bootstrap is None:
        return None
    with needs_extra("kafka"):
        from tidegauge_cli.demo.kafka.topic import FlightTopic  # noqa: PLC0415
    return FlightTopic(stream.stream, {"bootstrap.servers": bootstrap})
