"""Flights that left New York in 2013, replayed through Tidegauge into Spark.

python -m examples.flights             # compared with Spark's own watermark: make demo
python -m examples.flights kafka       # the same over Kafka: make demo-kafka
python -m examples.flights lake        # through three Delta tables: make demo-lake
python -m examples.flights producer    # the writers alone, as in docker-compose.yml
python -m examples.flights pipeline    # the query alone, as there
"""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)

Days = Annotated[
    int,
    typer.Option(
        envvar="FLIGHTS_DAYS", min=1, max=365, help="Number of days, from 1 January 2013 on."
    ),
]
Batches = Annotated[
    int, typer.Option(min=1, help="Number of batches, about: with fewer, each waits longer.")
]
Output = Annotated[Path, typer.Option(envvar="FLIGHTS_OUTPUT", help="Folder of the results.")]
Url = Annotated[str, typer.Option(envvar="TIDEGAUGE_URL", help="Address of the service.")]
Token = Annotated[
    str | None, typer.Option(envvar="TIDEGAUGE_TOKEN", help="Token, if the service has tokens.")
]
Stream = Annotated[str, typer.Option(envvar="FLIGHTS_STREAM", help="SCOPE/STREAM.")]
Bootstrap = Annotated[
    str | None,
    typer.Option(envvar="KAFKA_BOOTSTRAP", help="HOST:PORT of the brokers with the flights."),
]

_LOCAL = "http://127.0.0.1:8470"
_FLIGHTS = "demo/flights"
_PACE = 35_000.0


@app.callback(invoke_without_command=True)
def compare(
    context: typer.Context,
    *,
    days: Days = 3,
    batches: Batches = 80,
    output: Output = Path("tidegauge-demo"),
) -> None:
    """Replay flights through Tidegauge into Spark, and compare the results with the truth.

    Four queries with Spark's own watermark read the same batches again. This takes two to three
    minutes on two cores.
    """
    if context.invoked_subcommand is None:
        from examples.flights.run import run_demo  # noqa: PLC0415 (takes seconds)

        sys.exit(run_demo(days=days, speed=_PACE, batches=batches, output=output))


@app.command()
def kafka(
    *,
    bootstrap: Annotated[
        str, typer.Option(envvar="KAFKA_BOOTSTRAP", help="HOST:PORT of Kafka brokers.")
    ],
    jars: Annotated[
        Path,
        typer.Option(
            envvar="KAFKA_JARS", help="Folder with the jars of Spark's Kafka connector."
        ),
    ],
    days: Days = 3,
    batches: Batches = 25,
    output: Output = Path("tidegauge-demo-kafka"),
) -> None:
    """Replay flights through Kafka into Spark, and compare the results with the truth.

    Two topics are created, and deleted in the end. This takes four to five minutes on two cores.
    """
    from examples.flights.kafka.run import KafkaDemo, run_kafka_demo  # noqa: PLC0415 (needs Kafka)

    sys.exit(run_kafka_demo(KafkaDemo(days, _PACE, batches, bootstrap, jars, output)))


@app.command()
def lake(
    *,
    jars: Annotated[
        Path,
        typer.Option(envvar="TIDEGAUGE_LAKE_JARS", help="Folder with the jars of Delta."),
    ],
    days: Days = 7,
    batches: Batches = 60,
    output: Output = Path("tidegauge-demo-lake"),
) -> None:
    """Replay flights into a chain of Delta tables, and compare them with the truth.

    This takes four to five minutes on two cores.
    """
    from examples.flights.lake.run import LakeDemo, run_lake_demo  # noqa: PLC0415 (needs Delta)

    sys.exit(run_lake_demo(LakeDemo(days, _PACE, batches, jars, output)))


@app.command()
def producer(
    *,
    url: Url = _LOCAL,
    token: Token = None,
    stream: Stream = _FLIGHTS,
    days: Days = 31,
    speed: Annotated[
        float,
        typer.Option(envvar="FLIGHTS_SPEED", min=1, help="Seconds of flights in one second."),
    ] = 10_000.0,
    bootstrap: Bootstrap = None,
) -> None:
    """Replay flights into a stream of a service, and seal it.

    With brokers the flights go to a topic with the stream's own name, and their time to the stream.
    """
    from examples.flights.address import StreamAddress  # noqa: PLC0415 (takes a second)
    from examples.flights.producer import run_producer  # noqa: PLC0415 (the same)

    address, topic = StreamAddress(url, stream, token), _topic(stream, bootstrap)
    sys.exit(run_producer(address, days=days, speed=speed, topic=topic))


@app.command()
def pipeline(
    *,
    url: Url = _LOCAL,
    token: Token = None,
    stream: Stream = _FLIGHTS,
    days: Days = 31,
    master: Annotated[
        str, typer.Option(envvar="FLIGHTS_MASTER", help="Address of Spark's master.")
    ] = "local[2]",
    output: Output = Path("tidegauge-demo"),
    bootstrap: Bootstrap = None,
) -> None:
    """Count the flights of a stream in Spark until it is sealed, and check the windows.

    The folder has the checkpoint and the windows; the whole cluster has to share it.
    """
    from examples.flights.address import StreamAddress  # noqa: PLC0415 (takes a second)
    from examples.flights.pipeline import run_pipeline  # noqa: PLC0415 (needs Spark)

    address, topic = StreamAddress(url, stream, token), _topic(stream, bootstrap)
    sys.exit(run_pipeline(address, days=days, master=master, output=output, topic=topic))


def _topic(stream: str, bootstrap: str | None) -> Any:  # noqa: ANN401 (imported late)
    if bootstrap is None:
        return None
    from examples.flights.kafka.topic import FlightTopic  # noqa: PLC0415 (needs Kafka)

    return FlightTopic(stream.partition("/")[2], {"bootstrap.servers": bootstrap})


if __name__ == "__main__":
    app()
