"""A Delta table in a store of the S3 protocol, whose secrets nobody is shown."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from math import inf, nan
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake
from pyarrow import fs

from tidegauge.tables import (
    IncompleteTableError,
    UnreadableTableError,
    complete_until,
    note,
    version_at,
    wait_for,
)
from tidegauge.tables.delta import DeltaLog

SECRET = "hidden-from-everybody"
TABLE = "s3://lake/hourly"


# In a process of its own: readers of Delta hold Python's lock while they wait for a store.
_SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(*server.get_host_and_port(), flush=True)
sys.stdin.read()
server.stop()
"""


@pytest.fixture(scope="module")
def store() -> Iterator[dict[str, str]]:
    """Give the options of a store with an empty bucket."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-W", "ignore", "-c", _SERVER]
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        host, port = server.stdout.readline().split()
        options = {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": "reader",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }
        files(options).create_dir("lake")
        yield options
        server.communicate()


@pytest.fixture
def table(store: dict[str, str]) -> Iterator[dict[str, str]]:
    """Give the options of a store with a table of three versions, the middle one without a note."""
    for until in (1_000, None, 2_000):
        commit(store, until)
    yield store
    files(store).delete_dir_contents("lake")


def files(options: dict[str, str]) -> fs.S3FileSystem:
    return fs.S3FileSystem(
        endpoint_override=options["AWS_ENDPOINT_URL"].removeprefix("http://"),
        scheme="http",
        region=options["AWS_REGION"],
        access_key=options["AWS_ACCESS_KEY_ID"],
        secret_key=SECRET,
        allow_bucket_creation=True,
    )


def commit(options: dict[str, str], until: int | None) -> None:
    told = {} if until is None else note(until, job="nightly")
    write_deltalake(
        TABLE,
        pa.table({"time": [until or 0]}),
        mode="append",
        storage_options=options,
        commit_properties=CommitProperties(custom_metadata=told),
    )


def test_it_is_asked_as_one_on_disk_is(table: dict[str, str]) -> None:
    assert complete_until(TABLE, storage_options=table) == 2_000
    times = (1_000, "1970-01-01T00:00:01.000001Z", 1_001, 2_001)
    found = [version_at(TABLE, time, storage_options=table) for time in times]
    assert found == [0, 2, 2, None]
    assert wait_for(TABLE, times[1], timeout=0, storage_options=table) == 2
    with pytest.raises(IncompleteTableError, match="it is complete until 2000"):
        wait_for(TABLE, 2_001, timeout=0, storage_options=table)
    for timeout in (nan, inf):
        with pytest.raises(ValueError, match=f"timeout is {timeout}; pass seconds, or leave"):
            wait_for(TABLE, 2_001, timeout=timeout, storage_options=table)
    with pytest.raises(TypeError, match="timeout is True; pass a timedelta"):
        wait_for(TABLE, 2_001, timeout=True, storage_options=table)


def test_who_waits_sees_the_commit_that_comes(table: dict[str, str]) -> None:
    found: list[int] = []
    wait = threading.Thread(
        target=lambda: found.append(wait_for(TABLE, 2_500, storage_options=table))
    )
    wait.start()
    commit(table, 3_000)
    wait.join(30)
    assert found == [3]


@pytest.mark.parametrize("commits", [1, 4, 6])
def test_a_log_that_sees_new_commits_sees_a_table_made_again(
    table: dict[str, str], commits: int
) -> None:
    """Also if that has more versions already."""
    log = DeltaLog(TABLE, table)
    first = log.table_id
    commit(table, 3_000)
    log.refresh()
    assert [one.time for one in log.newest_first()] == [3_000, 2_000, None, 1_000]
    files(table).delete_dir_contents("lake")
    for until in [None] * (commits - 1) + [50]:
        commit(table, until)
    log.refresh()
    assert log.table_id != first
    assert [one.time for one in log.newest_first()] == [50] + [None] * (commits - 1)


@pytest.mark.parametrize("wrong", [{"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, {}])
def test_an_error_shows_no_secret(
    store: dict[str, str], wrong: dict[str, str], tmp_path: Path
) -> None:
    address = f"{TABLE}-{tmp_path.name}"
    with pytest.raises(UnreadableTableError, match="or correct storage_options=") as caught:
        complete_until(address, storage_options=store | wrong | {"max_retries": "0"})
    shown: BaseException | None = caught.value
    while shown is not None:
        assert SECRET not in f"{shown} {shown!r}"
        shown = shown.__cause__
