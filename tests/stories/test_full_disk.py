"""A full disk is held against nobody: no report can be stored meanwhile."""

import time
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex

import httpx
import pytest

from tests.conftest import NewServer
from tests.patience import wait_until
from tests.server import LAUNCHER, Api, ServerProcess

OUTAGE_S = 2.5
UNCERTAIN_MS = 1_000
"""The longest step between two stamps that listening time counts."""
FILLER = "/v1/streams/tests/filler"
WITHOUT_COMPACTION = (
    "from controller.background import maintenance\nmaintenance._PERIOD_S = 3600\n" + LAUNCHER
)
_ON_A_FULL_DISK = """
mount -t tmpfs -o size=2m none "$DISK" && cp "$SAVED"/*.db "$DISK" && cat /dev/zero > "$DISK/filler"
exec "$@"
"""

pytestmark = pytest.mark.only_on("sqlite", "only a file's size is bounded by the service")


@pytest.fixture
def api(new_server: NewServer) -> Iterator[Api]:
    full = new_server(launcher=WITHOUT_COMPACTION, max_database_bytes=400_000)
    with full as server, Api(server.url) as one:
        yield one


def _report(api: Api, at: int) -> httpx.Response:
    """Report for a writer whose long name needs room on the disk."""
    path = f"{api.path}/writers/quick-{at}-{'x' * 200}/note-time"
    return api.client.post(path, json={"time": at, "position": {"0": at}})


def _fill(api: Api, size: int) -> None:
    """Append events of some size until there is no room for another."""
    ndjson = {"content-type": "application/x-ndjson"}
    while True:
        event = f'{{"key": "k", "value": "{token_hex(size // 2)}"}}'
        answer = api.client.post(f"{FILLER}/events", content=event, headers=ndjson)
        if answer.status_code == 503:
            return
        answer.raise_for_status()


def _holding_ms(api: Api) -> int:
    (holder,) = api.get("watermark")["explanation"]["holders"]
    assert (holder["writer"], holder["state"]) == ("slow", "behind")
    held: int = holder["silent_for_ms"]
    return held


def test_time_in_which_the_disk_is_full_is_charged_to_nobody(api: Api) -> None:
    api.client.put(FILLER, json={}).raise_for_status()
    api.create(aggregation_timeout_ms=3_600_000)
    api.note("slow", 10, 1)
    for size in (20_000, 500):
        _fill(api, size)
    api.note("quick", 1_000, 1)
    at = 1_000
    refusals = 0
    while refusals < 20:
        is_refused = _report(api, at).status_code == 503
        refusals = refusals + 1 if is_refused else 0
        at += not is_refused
    began, before = time.monotonic(), _holding_ms(api)
    while time.monotonic() < began + OUTAGE_S:
        assert _report(api, at).status_code == 503
    assert _holding_ms(api) <= before + UNCERTAIN_MS
    api.client.delete(FILLER).raise_for_status()
    wait_until(lambda: _report(api, at).status_code == 200)
    wait_until(lambda: _holding_ms(api) > before + UNCERTAIN_MS)


def test_a_service_starts_for_reading_where_not_a_byte_is_left(
    tmp_path: Path, new_server: NewServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with new_server() as server, Api(server.url) as api:
        api.create()
        api.note("w", 10, 4)
        assert server.stop() == 0
    monkeypatch.setenv("SAVED", str(server.database.parent))
    monkeypatch.setenv("DISK", str(disk := tmp_path / "disk"))
    disk.mkdir()
    # In a namespace of its own anybody may mount, and nothing is left of it afterwards.
    prefix = (
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        _ON_A_FULL_DISK,
        "sh",
    )
    url = f"sqlite:///{disk / 'tidegauge.db'}"
    full = ServerProcess(tmp_path, database_url=url, prefix=prefix)
    with full, Api(full.url) as api:
        (mark,) = api.get("marks")["marks"]
        assert (mark["lower"], mark["cut"]) == (10, {"0": 4})
        refused = _report(api, 11)
        assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
        assert "its disk is full" in refused.json()["detail"]
        assert api.get("watermark")["watermark"] == 10
