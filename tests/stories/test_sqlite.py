"""A service on SQLite: one process a file, which it names, and which keeps what it has through kill -9."""

import pytest

from tests.server import ServerProcess
from tests.service.api import Api


@pytest.mark.only_on("sqlite", "this is what it is particular in")
def test_a_file_is_served_by_one_process_and_outlives_it(server: ServerProcess) -> None:
    assert f"database {server.database.resolve()}\n" in server.log.read_text()
    with Api(server.url) as api:
        api.create()
        assert api.note("w", 7, 1)["watermark"] == 7
        second = ServerProcess(server.directory, database_url=server.database_url)
        second.log = server.directory / "second.log"
        said = second.refusal()
        assert f"is served by process {server.process.pid}" in said
        assert str(server.database) in said
        server.kill()
        server.start()
        assert api.get("watermark")["mark"]["cut"] == {"0": 1}
