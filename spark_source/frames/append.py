"""Appending a query's output to a lakehouse table that says until when it is complete."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import TimestampType

from spark_source.columns import name_in, timestamp_cure
from spark_source.errors import InvalidOptionError
from spark_source.frames.watermark import check_python, hide_tokens, plain
from spark_source.frames.write import check_target, delay_of, refuse_guess, triggered
from spark_source.options.durations import option_ms
from spark_source.options.sink import read_place
from spark_source.sink.engines import Format, make_table
from spark_source.sink.job import TableOptions
from spark_source.sink.tables import TableSink

_NOT_WRITTEN = "watermark", "late_below"


def append_to_table(
    df: DataFrame,
    table: str,
    *,
    format: Format,  # noqa: A002 (as Spark's writers name it)
    event_time: str,
    checkpoint: str,
    output_delay: timedelta | str | None = None,
    late_panes: Literal["flagged"] | None = None,
    job: str | None = None,
    take_over: bool = False,
    note_every: timedelta | str = "1 minute",
    url: str | None = None,
    stream: str | None = None,
    seal: bool = False,
    trigger: str | None = None,
    name: str | None = None,
    token: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    catalog: Mapping[str, str] | None = None,
) -> StreamingQuery:
    """Start a query that appends each row once to a table, and records how far that is complete.

    Each commit has a note: no later one has an on-time row below its time. Readers of the table
    take it with ``follow``, ``tidegauge.tables`` or in any engine that shows a commit's metadata.

    Parameters
    ----------
    df
        A streaming frame over streams of ours, and topics and tables that are followed. The
        columns ``watermark`` and ``late_below`` are not written.
    table
        The path of a Delta table, or the name of an Iceberg table in the catalog. It is created
        if it is not there.
    format
        ``delta`` or ``iceberg``.
    event_time
        SQL for the time of a row, a timestamp such as ``window.start``, by which late rows are
        counted.
    checkpoint
        Of the query: where it goes on, and by what its batches are numbered.
    output_delay, late_panes
        See `write_stream`: for ``window.start`` the size of the window.
    job
        Who declares the table's time; the query's id without it. Readers see it.
    take_over
        Declare the table's time in place of another query, of this job or of another one, or
        after notes that have ended; once for a checkpoint, so that what is left in a job does no
        harm when that restarts. After a final note all rows are late: a table that has ended does
        not begin again.
    note_every
        A time that rises while no rows come is committed this often at most; with the trigger
        ``availableNow`` at once.
    url, stream, token
        A stream of one partition, created with ``log: external``, to which the query notes time.
        Needed where several jobs append to one table. A table whose newest note is of another job
        or stream needs ``take_over``.
    seal
        Say to the stream when what the query reads has ended. The stream is sealed once all its
        writers have ended, at least ``min_writers`` of them.
    trigger, name
        See `write_stream`.
    storage_options, catalog
        As ``deltalake.DeltaTable`` and ``pyiceberg.catalog.load_catalog`` take them. An Iceberg
        catalog's ``name`` is that by which Spark knows it.

    Returns
    -------
    StreamingQuery
        Running. It fails with `TableTakenError` if another query declares, or if the checkpoint is
        older than the table, with ``TwoJobsError`` if another query declared meanwhile, and with
        `ReplacedTableError` if the table was made again.

    Raises
    ------
    GuessedWatermarkError
        If the query reads something else than streams of ours and what is followed, or has the
        greatest of several watermarks.
    UnclearDelayError
        See `write_stream`.
    InvalidOptionError
        If a value is none.

    Examples
    --------
    >>> append_to_table(
    ...     hourly,
    ...     "s3://lake/hourly",
    ...     format="delta",
    ...     event_time="window.start",
    ...     output_delay="1 hour",
    ...     checkpoint=PATH,
    ... )  # doctest: +SKIP
    """
    if not df.isStreaming:
        cure = "is no stream; write it with df.write, and options of commit_options()"
        raise InvalidOptionError("df", cure)
    refuse_guess(df, strictly=True)
    spark = df.sparkSession
    check_python(spark)
    hide_tokens(spark)
    rows = plain(df.drop(*_NOT_WRITTEN))
    options = _options(
        table,
        format=format,
        event_time=event_time,
        column=name_in(rows.schema, event_time),
        checkpoint=checkpoint,
        output_delay_ms=delay_of(output_delay, late_panes, corrects="pane" in df.columns),
        job=job,
        take_over=take_over,
        # A query that ends by itself would end with its last time withheld.
        note_every_ms=0 if trigger == "availableNow" else option_ms("note_every", note_every),
        url=url,
        stream=stream,
        seal=seal,
        token=token,
        storage_options=storage_options,
        catalog=catalog,
    )
    _check_event_time(rows, event_time)
    engine, sink = options.engine(), TableSink(options)
    engine.check(spark)
    if stream is not None:
        check_target(spark, read_place(url=url, stream=stream, token=token))
    writer = rows.writeStream.foreachBatch(sink).outputMode("append")
    started = triggered(writer, name, trigger).option("checkpointLocation", checkpoint)
    query = started.start()
    sink.close_after(query)
    try:
        # Behind the start: a query that Spark refuses leaves no table, with columns of its own.
        make_table(engine, spark, rows.schema)
    except BaseException:
        query.stop()
        raise
    return query


def commit_options(
    batch: DataFrame,
    number: int,
    *,
    table: str,
    format: Format,  # noqa: A002 (as Spark's writers name it)
    checkpoint: str,
    output_delay: timedelta | str | None = None,
    late: int = 0,
    job: str | None = None,
    take_over: bool = False,
    storage_options: Mapping[str, str] | None = None,
    catalog: Mapping[str, str] | None = None,
) -> dict[str, str] | None:
    """Make the options with which a ``foreachBatch`` of your own commits a batch and its note.

    Parameters
    ----------
    batch, number
        As Spark hands them over.
    late
        How many of its rows are below the time that the table was complete until.
    table, format, checkpoint, output_delay, job, take_over, storage_options, catalog
        See `append_to_table`.

    Returns
    -------
    dict or None
        For ``batch.write.format("delta").options(…)`` or ``batch.writeTo(…).options(…)``; None if
        the table has this batch already. Then run it into ``noop``, so that state is stored.

    Raises
    ------
    TableTakenError
        If another query declares the table's time, or the checkpoint is older than the table.
    GuessedWatermarkError
        If the query reads something else than streams of ours and what is followed.
    """
    options = _options(
        table,
        format=format,
        checkpoint=checkpoint,
        output_delay_ms=delay_of(output_delay, None, corrects=False),
        job=job,
        take_over=take_over,
        storage_options=storage_options,
        catalog=catalog,
    )
    engine = options.engine()
    engine.check(batch.sparkSession)
    plan = TableSink(options).plan(batch, number)
    if plan.is_known:
        return None
    note = plan.note.model_copy(update={"late": late})
    return engine.options(batch.sparkSession, note)


def _check_event_time(rows: DataFrame, event_time: str) -> None:
    """Refuse SQL that makes no timestamp of a row, before a batch fails by it."""
    try:
        found = rows.select(F.expr(event_time)).schema[0].dataType
    except AnalysisException as error:
        raise InvalidOptionError("event_time", str(error).partition("\n")[0]) from None
    if not isinstance(found, TimestampType):
        problem = f"{event_time!r} is of type {found.simpleString()}; {timestamp_cure(found)}"
        raise InvalidOptionError("event_time", problem)


def _options(table: str, **given: Any) -> TableOptions:  # noqa: ANN401 (fields of TableOptions)
    options = TableOptions(table=table, **given)
    if options.format not in ("delta", "iceberg"):
        raise InvalidOptionError(
            "format", f"{options.format!r} is neither 'delta' nor 'iceberg'"
        )
    if (options.format == "iceberg") != (options.catalog is not None):
        raise InvalidOptionError("catalog", "goes with format='iceberg', and only with it")
    if (options.url is None) != (options.stream is None):
        raise InvalidOptionError("stream", "and url= go together")
    if options.seal and options.stream is None:
        raise InvalidOptionError("seal", "ends a stream; give url= and stream=")
    return options
