"""Each controller has an address of its own, where the others reach it."""

from pathlib import Path

from tests.integration.controllers import LEASE_MS, controllers, create, note
from tests.patience import wait_until
from tests.postgres import Cluster
from tests.server import ServerProcess

ADDRESS = "http://127.0.0.1:9"


def test_a_second_controller_at_an_address_does_not_start_while_the_first_lives(
    cluster: Cluster, tmp_path: Path
) -> None:
    with controllers(cluster, tmp_path, 1, advertise_url=ADDRESS, lease_ms=LEASE_MS) as running:
        (first,) = running.servers
        create(first.url, "tests/a")
        ((lease,),) = running.query("SELECT id FROM controllers")
        place = tmp_path / "second"
        place.mkdir()
        second = ServerProcess(
            place,
            database_url=running.database_url,
            advertise_url=ADDRESS,
            lease_ms=LEASE_MS,
        )
        _check_refused(second)
        assert running.query("SELECT id FROM controllers") == [(lease,)]
        assert note(first.url, "tests/a", 1).status_code == 200
        first.kill()
        with second:
            wait_until(lambda: running.held() == [1, 0])
            assert note(second.url, "tests/a", 2).status_code == 200


def _check_refused(second: ServerProcess) -> None:
    said = second.refusal()
    assert f"is reached at {ADDRESS}, and is alive" in said
    assert "--advertise-url of its own" in said
    assert "serving" not in said
