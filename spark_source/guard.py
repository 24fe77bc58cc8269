"""A guard before Spark's own stateful operators, which drop event times before 1970.

Their watermark begins at 0, and a row at or below it is late. Our operators take such rows, so
they lift the guard from the frame that they are given. Spark has no public way to do that: what
follows rewrites plans, those of the JVM or the messages of Spark Connect.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)

from spark_source.columns import named
from spark_source.errors import BEFORE_1970
from spark_source.options.times import LEAST_KEPT

_GUARD = "tidegauge.guard"
"""In the metadata of ``event_time`` where the guard is; what marks the column replaces it."""
_PLACES = "segment", "partition", "offset"
_STATEFUL = re.compile("aggregate|deduplicate|distinct|group_?map|limit|state", re.IGNORECASE)
"""Spark's operators that keep state: nodes of a plan of the JVM, and relations of Connect."""
_OPAQUE = "with_relations"
"""A relation of Connect whose SQL may keep state."""


def guarded(df: DataFrame, *, as_null: bool) -> DataFrame:
    """Refuse event times that Spark's own operators drop, or make them null."""
    time = F.col("event_time")
    if as_null:
        instead = F.lit(None)
    else:
        places = [name for name in _PLACES if name in df.columns]
        listed = ", ".join(f"{name} %s" for name in places)
        words = f"event time %d{f' ({listed})' if listed else ''}: {BEFORE_1970}"
        reason = F.format_string(words, F.unix_millis(time), *map(F.col, places))
        instead = F.raise_error(reason)
    is_dropped = F.unix_millis(time) < LEAST_KEPT
    guard = F.when(is_dropped, instead.cast("timestamp")).otherwise(time)
    replaced = {"event_time": guard.alias("event_time", metadata={_GUARD: True})}
    return df.select(*(replaced.get(name, named(name)) for name in df.columns))


def unguarded(df: DataFrame) -> DataFrame:
    """Lift the guard from a frame, unless Spark keeps state above it."""
    plan = getattr(df, "_plan", None)
    session: Any = df.sparkSession
    if plan is not None:
        relation = plan.plan(session.client)
        _lift_from_relation(relation)
        plan = copy(plan)
        plan.plan = lambda _: relation
        return type(df)(plan, session)
    jvm: Any = session._jvm  # noqa: SLF001 (no public way)
    analyzed = df._jdf.queryExecution().analyzed()  # noqa: SLF001 (no public way)
    lifted = _lifted(analyzed, jvm.PythonUtils.toSeq)
    if lifted is analyzed:
        return df
    made = jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, lifted)  # noqa: SLF001
    return type(df)(made, session)


def _lifted(plan: Any, seq_of: Callable[[Sequence[Any]], Any]) -> Any:  # noqa: ANN401 (a plan of the JVM)
    """Return a plan without guards, or the same if it has none."""
    children = _elements(plan.children())
    streams = [child for child in children if child.isStreaming()]
    if _keeps_state(plan.nodeName(), len(streams)):
        return plan
    below = [_lifted(child, seq_of) if child in streams else child for child in children]
    if any(new is not old for new, old in zip(below, children, strict=True)):
        plan = plan.withNewChildren(seq_of(below))
    if plan.nodeName() != "Project":
        return plan
    columns = _elements(plan.projectList())
    bare = [_bare(column, seq_of) if _is_guard(column) else column for column in columns]
    return plan.copy(seq_of(bare), plan.child()) if any(map(_is_guard, columns)) else plan


def _elements(seq: Any) -> list[Any]:  # noqa: ANN401 (a Seq of Scala)
    return [seq.apply(place) for place in range(seq.size())]


def _is_guard(column: Any) -> bool:  # noqa: ANN401 (an expression of the JVM)
    is_alias = column.nodeName() == "Alias" and column.child().nodeName() == "CaseWhen"
    return is_alias and bool(column.metadata().contains(_GUARD))


def _bare(guard: Any, seq_of: Callable[[Sequence[Any]], Any]) -> Any:  # noqa: ANN401 (an expression of the JVM)
    return guard.withNewChildren(seq_of([guard.child().elseValue().get()]))


def _lift_from_relation(message: Any) -> None:  # noqa: ANN401 (a message of Spark Connect)
    """Take guards out of a relation and of all that it is made of."""
    if message.DESCRIPTOR.name == "Relation":
        kind = message.WhichOneof("rel_type")
        parts = _parts(getattr(message, kind))
        streams = sum("is_streaming: true" in str(part) for part in parts)
        if kind == _OPAQUE or _keeps_state(kind, streams):
            return
    if message.DESCRIPTOR.name == "Alias" and _GUARD in message.metadata:
        message.expr.CopyFrom(message.expr.unresolved_function.arguments[-1])
    for part in _parts(message):
        _lift_from_relation(part)


def _parts(message: Any) -> Iterator[Any]:  # noqa: ANN401 (a message of Spark Connect)
    for field, value in message.ListFields():
        if field.message_type is not None:
            parts = [value] if hasattr(value, "ListFields") else value
            yield from (part for part in parts if hasattr(part, "ListFields"))


def _keeps_state(name: str, streams: int) -> bool:
    """Return whether a node of a plan keeps state, by its name and the streams below it."""
    return bool(_STATEFUL.search(name)) or ("join" in name.lower() and streams > 1)
