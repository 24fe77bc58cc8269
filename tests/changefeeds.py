"""Records of change data capture, in the form that CockroachDB and TiCDC document."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

_NS = 1_000_000


def _hlc(time_ms: int) -> str:
    """Write a time with some nanoseconds and a logical counter, which are rounded away."""
    return f"{time_ms * _NS + 999_999}.0000000007"


def _cockroach_row(partition: int, time_ms: int) -> dict[str, Any]:
    value = {"after": {"id": 1, "name": "Petee"}, "updated": _hlc(time_ms)}
    return {"partition": partition, "key": b"[1]", "value": json.dumps(value)}


def _cockroach_resolved(partition: int, time_ms: int) -> dict[str, Any]:
    return {"partition": partition, "value": json.dumps({"resolved": _hlc(time_ms)})}


def _ticdc(
    partition: int, kind: str, time_ms: int, tidb: dict[str, int], data: Any
) -> dict[str, Any]:
    value = {
        "id": 0,
        "database": "test" if data else "",
        "table": "tp_int" if data else "",
        "pkNames": ["id"] if data else None,
        "isDdl": False,
        "type": kind,
        "es": time_ms,
        "ts": time_ms + 1_088,
        "sql": "",
        "sqlType": {"id": 4} if data else None,
        "mysqlType": {"id": "int"} if data else None,
        "data": data,
        "old": None,
        "_tidb": tidb,
    }
    return {"partition": partition, "value": json.dumps(value)}


def tso(time_ms: int) -> int:
    """Make a time of TiDB: milliseconds, and 18 bits of a logical counter, which are rounded away."""
    return (time_ms << 18) + 2**18 - 1


def _ticdc_row(partition: int, time_ms: int) -> dict[str, Any]:
    return _ticdc(partition, "INSERT", time_ms, {"commitTs": tso(time_ms)}, [{"id": "2"}])


def _ticdc_watermark(partition: int, time_ms: int) -> dict[str, Any]:
    return _ticdc(partition, "TIDB_WATERMARK", time_ms, {"watermarkTs": tso(time_ms)}, None)


class Changefeed(NamedTuple):
    """A product, where it writes the time of a row, and its records."""

    name: str
    event_time: str
    row: Callable[[int, int], dict[str, Any]]
    promise: Callable[[int, int], dict[str, Any]]


COCKROACHDB = Changefeed("cockroachdb", "json:/updated", _cockroach_row, _cockroach_resolved)
TICDC = Changefeed("ticdc", "json:/_tidb/commitTs", _ticdc_row, _ticdc_watermark)
