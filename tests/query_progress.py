"""Progress of a batch as Spark hands it to listeners, made up."""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from pyspark.sql.streaming.listener import StreamingQueryProgress

NOON = 1_704_110_400_000
FLAGGED = {"late": 3, "late_by": 60_000, "late_writers": {"a": 2, "": 1}}
TEN = {"rows": 10, "bound": "2024-01-01T12:00:00.000Z", **FLAGGED}


def source_progress(latest: Any, end: Any) -> dict[str, Any]:
    rates = {"numInputRows": 11, "inputRowsPerSecond": 1.0, "processedRowsPerSecond": 1.0}
    offsets = {"startOffset": "null", "endOffset": end, "latestOffset": latest}
    return {"description": "source", **offsets, **rates}


OURS = source_progress(
    {
        "stream": "demo/rides",
        "reader_group": "demo/counts",
        "lag_ms": 1_500,
        "backlog_rows": 40,
    },
    {"stream_id": "s", "position": {"0": 10}, "bound": NOON, "revision": 3, "run": 1},
)


def _state(**more: int) -> dict[str, Any]:
    counts = (
        "numRowsTotal numRowsUpdated numRowsRemoved allUpdatesTimeMs allRemovalsTimeMs "
        "commitTimeMs memoryUsedBytes numRowsDroppedByWatermark numShufflePartitions "
        "numStateStoreInstances"
    )
    empty: dict[str, Any] = dict.fromkeys(counts.split(), 0)
    return {**empty, "operatorName": "op", "memoryUsedBytes": 1_024, "customMetrics": more}


def batch_progress(
    *, batch: int = 7, sources: Sequence[Any] = (OURS,), **observed: Mapping[str, Any]
) -> StreamingQueryProgress:
    """Make the progress of a batch as Spark Connect, and `recentProgress`, hand it over."""
    document = {
        "id": str(UUID(int=1)),
        "runId": str(UUID(int=2)),
        "name": "counts",
        "timestamp": "2024-01-01T12:00:01.000Z",
        "batchId": batch,
        "batchDuration": 5,
        "durationMs": {},
        "eventTime": {},
        "stateOperators": [_state(), _state(rocksdbSstFileSize=4_096)],
        "sources": list(sources),
        "sink": {"description": "sink", "numOutputRows": 0},
        "numInputRows": 11,
        "inputRowsPerSecond": 1.0,
        "processedRowsPerSecond": 1.0,
        "observedMetrics": observed,
    }
    return StreamingQueryProgress.fromJson(json.loads(json.dumps(document)))
