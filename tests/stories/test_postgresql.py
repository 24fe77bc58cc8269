"""A service on PostgreSQL: its schema is made by a command, and it keeps what it has through kill -9."""

from pathlib import Path

from typer.testing import CliRunner

from tests.postgres import Cluster
from tests.server import ServerProcess
from tests.service.api import Api
from tidegauge_cli.verbs import app

SECRET = "correct-horse"


def test_a_database_is_upgraded_then_served_and_its_password_is_never_shown(
    tmp_path: Path, cluster: Cluster
) -> None:
    shown = cluster.empty_database()
    url = shown.replace("tidegauge@", f"tidegauge:{SECRET}@")
    refused = ServerProcess(tmp_path, database_url=url).refusal()
    assert f"run: tidegauge db upgrade --database-url '{shown}'" in refused
    for _ in range(2):
        upgraded = CliRunner().invoke(app, ["db", "upgrade", "--database-url", url])
        assert upgraded.exit_code == 0, upgraded.exception
        assert upgraded.stdout == f"{shown} has the newest schema\n"
    with ServerProcess(tmp_path, database_url=url) as server, Api(server.url) as api:
        api.create()
        assert api.note("w", 7, 1)["watermark"] == 7
        server.kill()
        server.start()
        assert api.get("watermark")["mark"]["cut"] == {"0": 1}
        said = server.log.read_text()
    assert f"database {shown}\n" in said
    assert SECRET not in said
