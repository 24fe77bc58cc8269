"""What `tidegauge table` says of a Delta table, and how it ends."""

import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from tests.service.operator import check_session
from tidegauge.tables import note

ROWS = pa.table({"time": [1]})


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of three commits, the second of which says nothing of time, and one without notes."""
    monkeypatch.chdir(tmp_path)
    for until in (1_000, None, 2_000):
        noted = {} if until is None else note(until, job="nightly")
        properties = CommitProperties(custom_metadata=noted)
        write_deltalake("hourly", ROWS, mode="append", commit_properties=properties)
    write_deltalake("silent", ROWS)


SESSIONS = {
    "it shows until when, since which version and by whom": """
        $ table hourly
        …complete until 2000…version 2,…nightly…
        """,
    "it finds the first version that is complete": """
        $ table hourly --wait 1001 --json
        {…"version": 2…}
        $ table hourly --wait 2000 --json
        {…"version": 2…}
        $ table hourly --wait 1000 --json
        {…"version": 0…}
        $ table hourly --wait 1970-01-01T00:00:01.000001Z --json
        {…"version": 2…}
        $ table hourly --wait -5 --json
        {…"version": 0…}
        """,
    "it finds when it was complete until a time, and by whom": """
        $ table hourly --at 1001
        …complete until 1001…version 2, committed 20…by job…nightly…
        $ table hourly --at 1970-01-01T00:01Z
        hourly is not complete until 60000
        """,
    "it gives up waiting": """
        $ table hourly --wait 2001 --timeout 1ms
        …is not complete until 2001: it is complete until 2000… [1]
        """,
    "an address without a table is named with the cure": """
        $ table none
        tidegauge: …does not exist…; correct the path, or for an Iceberg table give catalog=… [1]
        $ table .
        tidegauge: …correct the path… [1]
        $ table http://127.0.0.1/hourly
        tidegauge: …give its address in the object store, such as s3://… [1]
        $ table ftp://127.0.0.1/hourly
        tidegauge: …correct the address, or give storage_options=… [1]
        """,
    "a table without notes says what writes them": """
        $ table silent
        …says nothing of its time: no commit…append_to_table()…
        """,
}


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("session", SESSIONS.values(), ids=SESSIONS)
def test_what_the_verb_prints(session: str) -> None:
    check_session(session)


@pytest.mark.usefixtures("tables")
def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tidegauge.tables.delta")
    monkeypatch.setitem(sys.modules, "deltalake", None)
    check_session("""
        $ table hourly
        tidegauge: reading a table needs deltalake; run pip install '.[tables]'… [1]
        """)
