"""Flights that left New York in 2013, replayed through Tidegauge into Spark.

    python -m examples.flights             # compared with Spark's own watermark: make demo
    python -m examples.flights kafka       # the same over Kafka: make demo-kafka
    python -m examples.flights lake        # through three Delta tables: make demo-lake
    python -m examples.flights producer    # the writers alone, as in docker-compose.yml
    python -m examples.flights pipeline    # the query alone, as there

Each returns 0 if no flight was lost and all results were right.
"""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from examples.flights.waiting import FlightsError

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)

Days = Annotated[int, typer.Option(envvar="FLIGHTS_DAYS", min=1, max=365, help="Days of 2013.")]
Batches = Annotated[int, typer.Option(min=1, help="Number of batches, about.")]
Output = Annotated[Path, typer.Option(envvar="FLIGHTS_OUTPUT", help="Folder of the results.")]
Url = Annotated[str, typer.Option(envvar="TIDEGAUGE_URL", help="Address of the service.")]
Token = Annotated[str | None, typer.Option(envvar="TIDEGAUGE_TOKEN", help="For the service.")]
Stream = Annotated[str, typer.Option(envvar="FLIGHTS_STREAM", help="SCOPE/STREAM.")]
Speed = Annotated[float, typer.Option(envvar="FLIGHTS_SPEED", min=1, help="Of the replay.")]
Master = Annotated[str, typer.Option(envvar="FLIGHTS_MASTER", help="Of the Spark cluster.")]
Brokers = Annotated[str, typer.Option(envvar="KAFKA_BOOTSTRAP", help="HOST:PORT of Kafka.")]
Connector = Annotated[Path, typer.Option(envvar="KAFKA_JARS", help="Spark's Kafka connector.")]
Delta = Annotated[Path, typer.Option(envvar="TIDEGAUGE_LAKE_JARS", help="Jars of Delta.")]

_LOCAL = "http://127.0.0.1:8470"
_FLIGHTS = "demo/flights"


@app.callback(invoke_without_command=True)
def main(
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
        from examples.flights.compare import compare  # noqa: PLC0415 (takes seconds)

        sys.exit(compare(days=days, batches=batches, output=output))


@app.command()
def kafka(
    *,
    bootstrap: Brokers,
    jars: Connector,
    days: Days = 3,
    batches: Batches = 25,
    output: Output = Path("tidegauge-demo-kafka"),
) -> None:
    """Replay flights through a topic of Kafka into Spark, and compare the results with the truth.

    The topic is created, and deleted in the end. This takes two to three minutes on two cores.
    """
    from examples.flights.kafka.compare import compare  # noqa: PLC0415 (needs the extra kafka)

    sys.exit(compare(bootstrap, jars, days=days, batches=batches, output=output))


@app.command()
def lake(
    *,
    jars: Delta,
    days: Days = 7,
    batches: Batches = 60,
    output: Output = Path("tidegauge-demo-lake"),
) -> None:
    """Replay flights into a chain of Delta tables, and compare them with the truth.

    This takes three to four minutes on two cores.
    """
    from examples.flights.lake.compare import compare  # noqa: PLC0415 (needs the extra tables)

    sys.exit(compare(jars, days=days, batches=batches, output=output))


@app.command()
def producer(
    *,
    url: Url = _LOCAL,
    token: Token = None,
    stream: Stream = _FLIGHTS,
    days: Days = 31,
    speed: Speed = 10_000.0,
    bootstrap: Brokers = "",
) -> None:
    """Replay flights into a stream of a service, and seal it.

    With brokers the flights go to a topic with the stream's own name, and their time to the stream.
    """
    from examples.flights.carriers import Address  # noqa: PLC0415 (takes a second)
    from examples.flights.producer import produce  # noqa: PLC0415 (the same)

    address, topic = Address(url, stream, token), _topic(stream, bootstrap)
    produce(address, days=days, speed=speed, topic=topic)


@app.command()
def pipeline(
    *,
    url: Url = _LOCAL,
    token: Token = None,
    stream: Stream = _FLIGHTS,
    days: Days = 31,
    master: Master = "local[2]",
    output: Output = Path("tidegauge-demo"),
    bootstrap: Brokers = "",
) -> None:
    """Count the flights of a stream in Spark until it is sealed, and check the windows.

    The folder has the checkpoint and the windows; the whole cluster has to share it.
    """
    from examples.flights.carriers import Address  # noqa: PLC0415 (takes a second)
    from examples.flights.pipeline import count  # noqa: PLC0415 (needs Spark)

    address, topic = Address(url, stream, token), _topic(stream, bootstrap)
    sys.exit(count(address, days=days, master=master, output=output, topic=topic))


def _topic(stream: str, bootstrap: str) -> Any:  # noqa: ANN401 (imported late)
    if not bootstrap:
        return None
    from examples.flights.kafka.topic import FlightTopic  # noqa: PLC0415 (needs the extra kafka)

    return FlightTopic(stream.partition("/")[2], bootstrap)


if __name__ == "__main__":
    try:
        app()
    except FlightsError as error:
        sys.exit(str(error))
