"""Any query over a source of Spark's own, with the watermark of those who write what it reads."""

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import uuid4

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)

from spark_source.errors import InvalidOptionError
from spark_source.following.tick_source import TICK, TickDataSource
from spark_source.following.topic_ids import topic_id
from spark_source.frames.event_time import timed_by
from spark_source.frames.watermark import (
    Operators,
    check_python,
    hide_tokens,
    load,
    with_bound,
)
from spark_source.operators import has_watermark

TABLES = "delta", "iceberg"
"""Spark's sources of tables, by their names."""


def follow(
    df: DataFrame,
    *,
    event_time: Column | str,
    checkpoint: str,
    topic: str | None = None,
    table: str | None = None,
    url: str | None = None,
    stream: str | None = None,
    operators: Operators = "any",
    dedup_horizon: timedelta | str | None = None,
    name: str | None = None,
    token: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    catalog: Mapping[str, str] | None = None,
) -> DataFrame:
    """Make Spark's watermark follow the marks of a topic or a table that Spark's own source reads.

    Beside that source runs one of ticks, which reads from the query's own offset log how far the
    topic or table was planned in the batch before, and hands over the newest mark that this covers.
    So a result depends on logged offsets alone, also where a batch is repeated; it comes one
    batch later than with ``log=kafka``.

    It reads no rows, and so it flags none as late. `process` and `windowed` judge by Spark's
    watermark, and hand out each row that comes below it. **Spark's own operators drop such rows**:
    they come only from writers that broke their promise, or had expired, and
    ``numRowsDroppedByWatermark`` counts them, if not all of them. They would drop event times
    before 1970-01-01T00:00:00.001Z too, so such a time fails the query; see ``operators``.

    Parameters
    ----------
    df
        A streaming frame of ``format("kafka")``, ``"delta"`` or ``"iceberg"``, or what was made
        of one without state and without `withWatermark`.
    event_time
        A timestamp column of it, or SQL that makes one, such as ``"timestamp"``.
    checkpoint
        What the query has as ``checkpointLocation``: a path, or an address that pyarrow.fs
        knows, such as ``s3://bucket/path``. With another one the query fails.
    topic
        Whose rows these are. A source that reads others besides is refused.
    table
        In place of a topic: the address of a Delta table, or with ``catalog`` the name of an
        Iceberg table in it.
    url, stream, token
        The stream, created with ``log: external``, to which the writers of the topic or the table
        note time. Without them a table's own commits say how far it is complete.
    storage_options, catalog
        Of a table, as ``deltalake.DeltaTable`` and ``pyiceberg.catalog.load_catalog`` take them.
    operators, dedup_horizon
        See `watermarked`.
    name
        Of the observation, unique in the query. The progress shows under it the ``rows`` of each
        batch and its ``bound``, null where that did not rise.

    Returns
    -------
    DataFrame
        The columns of ``df``, then ``event_time``, which takes the place of one of that name, and
        ``watermark``, null in rows.

    Raises
    ------
    InvalidOptionError
        If the frame is no stream, does not read the topic or table, or an option is wrong. What it reads
        is not seen over Spark Connect.
    LoadError
        If the stream, the address or the checkpoint is wrong.
    WrongPythonError
        If the session would plan with another Python than this one.

    Examples
    --------
    >>> orders = spark.readStream.format("kafka").options(**broker, subscribe="orders").load()
    ... # doctest: +SKIP
    >>> exact = follow(
    ...     orders, event_time="timestamp", url=URL, stream="shop/orders", topic="orders", checkpoint=PATH
    ... )  # doctest: +SKIP
    >>> hourly = exact.groupBy(window("event_time", "1 hour")).count()  # doctest: +SKIP
    >>> hourly.writeStream.option("checkpointLocation", PATH).toTable("hourly")  # doctest: +SKIP
    """
    sources = _check(df)
    if (topic is None) == (table is None):
        raise InvalidOptionError("table", "or topic= is needed, and only one of them")
    if topic is not None:
        _check_topic(topic, sources)
    else:
        _check_table(sources, is_iceberg=catalog is not None)
    spark = df.sparkSession
    check_python(spark)
    options = {"url": url, "stream": stream, "topic": topic, "checkpoint": checkpoint}
    options |= {"table": table, "token": token}
    options |= {"storageSecrets": _packed(storage_options), "catalogSecrets": _packed(catalog)}
    if any("stream-from-timestamp" in read for _, read in sources):
        options["hasStart"] = "true"
    if any(one is not None for one in (token, storage_options, catalog)):
        hide_tokens(spark)
    if topic is not None:
        for _, of_kafka in sources[:1]:
            options["topicId"] = topic_id(spark, topic, of_kafka)
    options = {option: value for option, value in options.items() if value is not None}
    spark.dataSource.register(TickDataSource)
    ticks = load(spark, TickDataSource.name(), options)
    time = F.expr(event_time) if isinstance(event_time, str) else event_time
    rows = timed_by(df, time)
    united = rows.unionByName(ticks, allowMissingColumns=True)
    driven = with_bound(united, operators=operators, dedup_horizon=dedup_horizon)
    observed = driven.observe(
        name or f"tidegauge-{uuid4().hex}",
        F.expr(f"count_if({TICK} IS NULL)").alias("rows"),
        F.max("watermark").alias("bound"),
    )
    return observed.where(f"{TICK} IS NULL").drop(TICK)


def _packed(properties: Mapping[str, str] | None) -> str | None:
    return None if properties is None else json.dumps(dict(properties))


def _check(df: DataFrame) -> list[tuple[str, Any]]:
    """Refuse a frame that cannot be followed, and list its sources."""
    if not df.isStreaming:
        cure = "is not a stream; begin with spark.readStream"
        raise InvalidOptionError("df", cure)
    if has_watermark(df):
        raise InvalidOptionError("df", "has a watermark already; leave withWatermark() out")
    if "watermark" in map(str.lower, df.columns):
        raise InvalidOptionError(
            "df", "has a column 'watermark', which follow() adds; rename it"
        )
    return streaming_sources(df)


def _check_topic(topic: str, sources: list[tuple[str, Any]]) -> None:
    for source, options in sources:
        if source != "kafka":
            cure = "with topic=, follow() is for format('kafka') alone; unite or join others above it"
            raise InvalidOptionError("df", f"reads a stream of {source!r} besides; {cure}")
        if "assign" in options:
            cure = "load it with subscribe, which reads every partition that a mark may name"
            raise InvalidOptionError("assign", f"reads partitions of a topic by number; {cure}")
        subscribed = options.get("subscribe", topic)
        if subscribed != topic:
            cure = "each topic takes a source and a follow() of its own"
            raise InvalidOptionError(
                "topic", f"is {topic!r}, and df reads {subscribed!r}; {cure}"
            )


def _check_table(sources: list[tuple[str, Any]], *, is_iceberg: bool) -> None:
    expected = "iceberg" if is_iceberg else "delta"
    for source, options in sources:
        if source != expected:
            cure = (
                "with table=, follow() is for format('delta'), and with catalog= for "
                "format('iceberg'); unite or join others above it"
            )
            raise InvalidOptionError("df", f"reads a stream of {source!r}; {cure}")
        if options.get("branch", "main") != "main":
            cure = "only branch main has notes that hold; leave the option out"
            raise InvalidOptionError("branch", f"is {options['branch']!r}; {cure}")
    if len(sources) > 1:
        cure = "each takes a follow() of its own; unite or join them above it"
        raise InvalidOptionError("df", f"reads {len(sources)} tables; {cure}")


def streaming_sources(df: DataFrame) -> list[tuple[str, Any]]:
    """List the streaming sources of a frame, with their options; none is seen over Spark Connect."""
    if getattr(df, "_plan", None) is not None:
        return []
    leaves = df._jdf.queryExecution().analyzed().collectLeaves()  # noqa: SLF001 (no public way)
    streaming = [one for one in map(leaves.apply, range(leaves.size())) if one.isStreaming()]
    return [
        (one.sourceName(), dict(one.extraOptions()))
        if one.nodeName() == "StreamingRelationV2"
        else (one.sourceName(), {})
        if one.nodeName() == "StreamingRelation"
        else (one.nodeName(), {})
        for one in streaming
    ]
