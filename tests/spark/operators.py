"""One query with Spark's windows, a processor and windows of ours, and what each has to put out."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import reduce
from itertools import count as numbers
from typing import Any, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_source import Outputs, in_open_window, process, windowed
from spark_source.processing import ProcessOperator, SessionWindows, WindowSettings, aggregates
from spark_source.processing.aggregates import count, mean
from spark_source.processing.process import ProcessStep
from tests.spark.feed import DAY, Feed
from tests.spark.processors import Visits
from tests.window_model import WindowModel, WindowStep
from tidegauge.event_time import END_OF_TIME

Row: TypeAlias = tuple[Any, ...]

EACH_MARK = {"admission": "marks", "maxEventTimePerTrigger": "1 ms"}
"""Batches end at the same marks then, so that the same rows are late after a restart."""

SCRIPT: list[tuple[dict[str, list[int]], int | None]] = [
    ({"a": [10]}, 20),
    ({"a": [25], "unseen": [30]}, 49),
    ({"a": [45, 85], "c": [60, 60]}, 74),
    ({"a": [70], "b": [74, 75]}, 116),
    ({"a": [116]}, 147),
    ({"a": [100], "b": [10]}, 400),
    ({"a": [101], "c": [450]}, None),
]
"""Times of events by their keys, and the time noted behind them; None seals. Many are late."""

_AGGREGATES = {
    "n": count(),
    "total": aggregates.sum("number"),
    "least": aggregates.min("number"),
    "mean": mean("number"),
}
_SESSIONS = WindowSettings(
    assigner=SessionWindows(30),
    aggregates=_AGGREGATES,
    columns=["number"],
    lateness_ms=100,
    accumulation="accumulating_and_retracting",
)
_JSON = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def fill(feed: Feed) -> None:
    """Write all of the script."""
    for written, noted in SCRIPT:
        for key, times in written.items():
            feed.write(*times, key=key, value=json.dumps({"x": key}))
        if noted is None:
            feed.seal()
        else:
            feed.note(noted)


def query(spark: SparkSession, feed: Feed) -> DataFrame:
    """Run all operators over one load; what they put out is written as JSON."""
    load = feed.load(spark, operators="windows", **EACH_MARK)
    size = "50 milliseconds"
    counted = in_open_window(load, size).groupBy(F.window("event_time", size)).count()
    start = F.unix_millis("window.start") - DAY
    frames = {
        "Spark": counted.select(
            F.lit("main").alias("output"), F.struct(start, "count").alias("main")
        ),
        "process": _visits(load).frame,
        "windowed": _sessions(load),
    }
    texts = [
        df.select(F.lit(name), F.to_json(F.struct(*df.columns), _JSON))
        for name, df in frames.items()
    ]
    return reduce(DataFrame.union, texts)


def _visits(df: DataFrame) -> Outputs:
    """Process what a user's own select makes of a stream, whose times get microseconds."""
    time = F.timestamp_micros(F.unix_micros("event_time") + 999 - 7 * F.col("offset"))
    touched = (
        df.where("key <> 'unseen'")
        .select(
            time.alias("event_time", metadata=df.schema["event_time"].metadata),
            *("segment", "offset", "value", F.upper("key").alias("place")),
        )
        .withColumn("parsed", F.from_json(F.col("value").cast("string"), "x string"))
        .withColumn("number", F.col("offset") * 2)
        .withColumn("shown", F.coalesce("parsed.x", F.lit("nothing")))
    )
    columns = ["number", "shown"]
    return process(touched, Visits(), key="place", columns=columns, buckets=2)


def _sessions(df: DataFrame) -> DataFrame:
    """Find sessions; times are ms, less a day."""
    outputs = windowed(
        df.withColumn("number", F.col("offset")),
        _SESSIONS.assigner,
        key="key",
        aggregates=_AGGREGATES,
        allowed_lateness=f"{_SESSIONS.lateness_ms} ms",
        accumulation=_SESSIONS.accumulation,
        buckets=2,
    )
    times = [F.unix_millis(f"result.window.{side}") - DAY for side in ("start", "end")]
    said = [f"result.{name}" for name in ("kind", "pane", "pane_index", *_AGGREGATES)]
    late = [F.unix_millis("late.event_time") - DAY, F.col("late.offset"), F.col("late.late_by")]
    return outputs.frame.select(
        "output",
        F.struct("result.key", *times, *said).alias("result"),
        F.struct("late.key", *late).alias("late"),
    )


def told(rows: Iterable[tuple[str, str]]) -> dict[tuple[str, str], list[Row]]:
    """Divide what came out over operators and their outputs, ordered by key and then as it came."""
    outputs = dict[tuple[str, str], list[Row]]()
    for operator, text in rows:
        row = json.loads(text)
        values = tuple(row[row["output"]].values())
        outputs.setdefault((operator, row["output"]), []).append(values)
    return {name: sorted(rows, key=lambda row: row[0]) for name, rows in outputs.items()}


def expected() -> dict[tuple[str, str], list[Row]]:
    """Run the operators that know no Spark: rows come at the bound before, then time goes on."""
    visits = ProcessOperator(Visits(), columns=["number", "shown"])
    sessions = WindowModel(_SESSIONS)
    outputs = defaultdict[tuple[str, str], list[Row]](list)
    outputs["Spark", "main"] = [(0, 4), (50, 6), (100, 2), (450, 1)]
    visited, counted, bound = None, None, None
    offsets = numbers()
    for written, noted in SCRIPT:
        events = [
            (key, DAY + time, next(offsets)) for key, times in written.items() for time in times
        ]
        reached = END_OF_TIME if noted is None else DAY + noted
        for step_bound, arrived in ((bound, events), (reached, [])):
            seen = [event for event in arrived if event[0] != "unseen"]
            visit = visits.step(visited, step_bound, map(_as_seen, seen))
            session = sessions.step(counted, step_bound, map(_as_counted, arrived))
            visited, counted = visit.state, session.state
            _show_visits(visit, outputs)
            _show_sessions(session, outputs)
        bound = reached
    return {name: sorted(rows, key=lambda row: row[0]) for name, rows in outputs.items()}


def _as_seen(event: tuple[str, int, int]) -> Row:
    key, at, offset = event
    return key.upper(), at * 1_000 + 999 - 7 * offset, 0, offset, 2 * offset, key


def _as_counted(event: tuple[str, int, int]) -> Row:
    key, at, offset = event
    return key, at, 0, offset, offset


def _show_visits(visit: ProcessStep, outputs: Mapping[tuple[str, str], list[Row]]) -> None:
    outputs["process", "main"] += [(key, _text(at), *more) for key, at, *more in visit.out]
    outputs["process", "silent"] += [(key, _text(at)) for key, at in visit.side["silent"]]
    outputs["process", "late"] += [
        (key, _text(_EPOCH + timedelta(microseconds=at_us)), *more)
        for key, at_us, *more in visit.late
    ]


def _show_sessions(session: WindowStep, outputs: Mapping[tuple[str, str], list[Row]]) -> None:
    outputs["windowed", "result"] += [
        (
            *(firing.key, firing.start_ms - DAY, firing.end_ms - DAY),
            *(firing.kind, firing.pane, firing.pane_index, *firing.values),
        )
        for firing in session.out
    ]
    outputs["windowed", "late"] += [
        (key, at - DAY, offset, late_by) for key, at, _, offset, *_, late_by in session.late
    ]


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
