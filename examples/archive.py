"""Append a stream's past to a Delta table, and remember in the same commit where to read on.

Each commit records the time up to which the table is complete. Run it again and again, but not twice at once:

    python -m examples.archive http://127.0.0.1:8470 demo/rides /lake/rides 2024-01-01T00:00:00Z
"""

import json
import sys
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

from reader_client import StreamClient
from tidegauge.event_time import END_OF_TIME, parse_event_time
from tidegauge.lattice import down_set
from tidegauge.positions import format_position, parse_position
from tidegauge.tables import complete_until, note


def archived(table: str) -> tuple[int, str] | None:
    """Find the newest version, and the cut of the stream up to which it has all; None if none.

    A RESTORE takes back versions, with their cuts.
    """
    if not DeltaTable.is_deltatable(table):
        return None
    commits = {commit["version"]: commit for commit in DeltaTable(table).history()}
    version = max(commits)
    while version >= 0:
        if version not in commits:
            msg = (
                f"{table}: version {version} is no longer in its log; archive into a new table"
            )
            raise ValueError(msg)
        words = _words(commits[version])
        if "archived" in words:
            return version, words["archived"]
        version = _before(commits[version])
    return None


def _words(commit: dict[str, Any]) -> dict[str, Any]:
    """Read the metadata of a commit; that of others may be any text."""
    try:
        words = json.loads(commit.get("userMetadata") or "{}")
    except ValueError:
        return {}
    return words if isinstance(words, dict) else {}


def _before(commit: dict[str, Any]) -> int:
    """Find the version that a commit builds on."""
    if commit["operation"] != "RESTORE":
        return int(commit["version"]) - 1
    version = commit["operationParameters"].get("version")
    if version is None:
        msg = (
            f"version {commit['version']} is a RESTORE to a time; RESTORE to a version's number"
        )
        raise ValueError(msg)
    return int(version)


def archive(url: str, stream: str, table: str, time: int) -> tuple[int, str] | None:
    """Wait until a stream has all events below a time (ms); append those that the table has not."""
    former = archived(table)
    with StreamClient(url, stream) as client:
        client.wait_until(time)
        mark, topology = client.marks_at_time(time).stop, client.topology()
        assert mark is not None  # noqa: S101 (the stream has reached the time)
        begin = parse_position(former[1]) if former else client.tail().first_cut
        have, parts = down_set(topology, begin), down_set(topology, mark.cut)
        reads = (client.read(part, have.get(part, 0), end) for part, end in parts.items())
        pages = [page.batch for pages in reads for page in pages]
    if not pages:
        return former
    rows = pa.Table.from_batches(pages).select(["event_time", "key", "value", "writer"])
    until = complete_until(table) if former else None
    late = sum(until is not None and at < until for at in rows["event_time"].to_pylist())
    is_end = mark.lower == END_OF_TIME
    said = note(None if is_end else mark.lower, job="archive", final=is_end, late=late)
    words = json.loads(said["userMetadata"]) | {"archived": format_position(mark.cut)}
    times = rows["event_time"].cast(pa.timestamp("ms", "UTC"))
    metadata = CommitProperties(custom_metadata={"userMetadata": json.dumps(words)})
    rows = rows.set_column(0, "event_time", times)
    write_deltalake(table, rows, mode="append", commit_properties=metadata)
    return archived(table)


if __name__ == "__main__":
    _, _url, _stream, _table, _time = sys.argv
    print(archive(_url, _stream, _table, parse_event_time(_time)))
