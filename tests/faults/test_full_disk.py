"""A service on a disk that is full starts for reading."""

from pathlib import Path

import pytest

from tests.conftest import NewServer
from tests.server import ServerProcess
from tests.service.api import Api

_ON_A_FULL_DISK = """
mount -t tmpfs -o size=2m none "$DISK" && cp "$SAVED"/*.db "$DISK" && cat /dev/zero > "$DISK/filler"
exec "$@"
"""


@pytest.mark.only_on("sqlite", "of PostgreSQL, the disk is its own concern")
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
    unshare = ("unshare", "--user", "--map-root-user", "--mount")
    prefix = (*unshare, "sh", "-c", _ON_A_FULL_DISK, "sh")
    url = f"sqlite:///{disk / 'tidegauge.db'}"
    full = ServerProcess(tmp_path, database_url=url, prefix=prefix)
    with full, Api(full.url) as api:
        (mark,) = api.get("marks")["marks"]
        assert (mark["lower"], mark["cut"]) == (10, {"0": 4})
        report = {"time": 11, "position": {"0": 11}}
        refused = api.client.post(f"{api.path}/writers/{'x' * 200}/note-time", json=report)
        assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
        assert "its disk is full" in refused.json()["detail"]
        assert api.get("watermark")["watermark"] == 10
