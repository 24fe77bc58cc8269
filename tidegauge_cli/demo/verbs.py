"""`tidegauge demo`, alone on this machine or as parts of a cluster."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tidegauge.names import StreamName
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
        "How many days, from 1 January 2013 on.",
        parser=in_range(int, 1, 365),
        metavar="1..365",
    ),
]
Stream = Annotated[
    StreamName,
    _option(
        "STREAM", "Which stream.", parser=reading(StreamName.parse), metavar="SCOPE/STREAM"
    ),
]
Bootstrap = Annotated[
    str | None,
    _option("BOOTSTRAP", "Brokers of Kafka that hold the flights.", metavar="HOST:PORT"),
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
FLIGHTS: Any = "demo/flights"  # typer reads a default as it reads what is typed


@demo.callback(invoke_without_command=True, epilog="Example: tidegauge demo --days 7")
def run(
    context: typer.Context,
    *,
    days: Days = 3,
    speed: Annotated[float, _speed(f"{_MEANS}, at most: they wait for Spark.")] = 35_000,
    output: Annotated[
        Path, typer.Option(help="Folder for the table, the picture and the results.")
    ] = Path("tidegauge-demo"),
) -> None:
    """Replay real flights through the service and Spark, and compare with the truth."""
    if context.invoked_subcommand is not None:
        return
    print(_INTENT, flush=True)  # what is imported next takes seconds
    with needs_extra("all"):
        from tidegauge_cli.demo.run import run_demo  # noqa: PLC0415 (says which is missing)
    sys.exit(run_demo(days=days, speed=speed, output=output))


@demo.command(epilog="Example: tidegauge demo kafka --bootstrap kafka:9092 --days 7")
def kafka(
    *,
    days: Days = 3,
    speed: Annotated[float, _speed(f"{_MEANS}, at most: they wait for Spark.")] = 35_000,
    batches: Annotated[
        int,
        typer.Option(
            help="About how many, at most: the fewer, the longer each waits.",
            parser=in_range(int, 1, 1_000),
            metavar="1..1000",
        ),
    ] = 25,
    bootstrap: Bootstrap = None,
    output: Annotated[
        Path, typer.Option(help="Folder for the table, the picture and the results.")
    ] = Path("tidegauge-demo-kafka"),
) -> None:
    """Replay real flights through Kafka and Spark, and compare with the truth.

    Without brokers of yours it starts one of its own, which takes Maven the first time. At yours
    it makes two topics, tidegauge-demo-…, and deletes them.
    """
    print(_KAFKA_INTENT, flush=True)  # what is imported next takes seconds
    with needs_extra("all"):
        from tidegauge_cli.demo.kafka.run import KafkaDemo, run_kafka_demo  # noqa: PLC0415 (the same)
    sys.exit(run_kafka_demo(KafkaDemo(days, speed, batches, bootstrap, output)))


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

    With brokers of Kafka the flights go to a topic with the stream's own name, which is made if it
    is not there, and their time to the stream.
    """
    with needs_extra("writer,flights"):
        from tidegauge_cli.demo.address import StreamAddress  # noqa: PLC0415
        from tidegauge_cli.demo.producer import run_producer  # noqa: PLC0415
    address = StreamAddress(url, str(stream), token)
    topic = _topic(stream, bootstrap)
    sys.exit(run_producer(address, days=days, speed=speed, topic=topic))


@demo.command(epilog="Example: tidegauge demo pipeline --url http://gauge:8470 --days 7")
def pipeline(  # noqa: PLR0913 (options, each with a default)
    *,
    url: Url = LOCAL,
    token: Token = None,
    stream: Stream = FLIGHTS,
    days: Days = 31,
    master: Annotated[str, _option("MASTER", "Where Spark runs.")] = "local[2]",
    output: Annotated[
        Path,
        _option(
            "OUTPUT",
            "Folder for the checkpoint and the windows, the same on all of the cluster.",
        ),
    ] = Path("tidegauge-demo"),
    bootstrap: Bootstrap = None,
) -> None:
    """Only read: count the flights of a stream until it is sealed, and check the windows."""
    with needs_extra("spark,flights"):
        from tidegauge_cli.demo.address import StreamAddress  # noqa: PLC0415
        from tidegauge_cli.demo.pipeline import run_pipeline  # noqa: PLC0415
    address = StreamAddress(url, str(stream), token)
    topic = _topic(stream, bootstrap)
    sys.exit(run_pipeline(address, days=days, master=master, output=output, topic=topic))


def _topic(stream: StreamName, bootstrap: str | None) -> Any:  # noqa: ANN401 (imported late)
    if bootstrap is None:
        return None
    with needs_extra("kafka"):
        from tidegauge_cli.demo.kafka.topic import FlightTopic  # noqa: PLC0415
    return FlightTopic(stream.stream, {"bootstrap.servers": bootstrap})
