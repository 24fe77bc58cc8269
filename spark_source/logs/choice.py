"""Which log a load reads from; what is Kafka's alone is imported where a load names it."""

import os
from datetime import timedelta
from functools import cache

import reader_client
from spark_source.logs.embedded import EmbeddedLog
from spark_source.options.kafka import KafkaTopic
from spark_source.options.load import Options
from tidegauge.client.outage import RETRY_FOR
from tidegauge.extras import needs_extra
from tidegauge.log import Log, LogReader


def log_of(
    options: Options, client: "reader_client.StreamClient", *, retry_for: timedelta = RETRY_FOR
) -> Log:
    """Plan from the log that the options name; a broker that is away is asked for a while."""
    if options.kafka is None:
        return EmbeddedLog(client)
    with needs_extra("log=kafka", extra="kafka"):
        from spark_source.logs.kafka import KafkaLog  # noqa: PLC0415 (an extra)
    return KafkaLog(client, options.kafka, retry_for=retry_for)


def reader_of(options: Options, stream_id: str) -> LogReader:
    """Read from the log that the options name, with the connections of this worker process.

    It keeps one for each log: tasks read them in turn, and a client that is dropped keeps its thread.
    """
    if options.kafka is not None:
        return _topic_reader_of_worker(options.kafka, os.getpid())
    place = options.url, options.stream, options.token, stream_id
    return _reader_of_worker(*place, os.getpid())


@cache
def _reader_of_worker(
    url: str, stream: str, token: str | None, stream_id: str, _pid: int
) -> LogReader:
    return EmbeddedLog(
        reader_client.StreamClient(url, stream, token=token, stream_id=stream_id)
    )


@cache
def _topic_reader_of_worker(topic: KafkaTopic, _pid: int) -> LogReader:
    with needs_extra("log=kafka", extra="kafka"):
        from spark_source.logs.kafka_reader import KafkaReader  # noqa: PLC0415 (an extra)
    return KafkaReader(topic)
