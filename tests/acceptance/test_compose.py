"""docker-compose.yml and the Dockerfile: what they say is what works."""

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from tests.acceptance.compose import EXAMPLES, PATH, Service, read_services
from tests.acceptance.images import Images
from tests.acceptance.local_cluster import LocalCluster
from tests.linked import CONFIGURATION, PROJECT, ROOT
from tests.server import ServerProcess
from tests.service.api import Api

ROLES = ("controller", "producer", "spark")
CONTROLLERS = ("controller-1", "controller-2", "controller-3")
FEW_FLIGHTS = {"FLIGHTS_DAYS": "1", "FLIGHTS_SPEED": "50000"}
PROFILES = ("kafka", "observe", "three")
_PLAIN_AND_PINNED = re.compile(r"([a-z]+/)?[a-z][a-z-]*:v?\d[\w.]*(-[a-z]+)*")


@pytest.fixture(scope="module")
def services() -> dict[str, Service]:
    """Those of the demo, with a third controller."""
    return read_services(FEW_FLIGHTS, profiles=("three",))


@pytest.fixture(scope="module")
def local_cluster(
    services: dict[str, Service], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalCluster]:
    with LocalCluster(services, tmp_path_factory.mktemp("cluster")) as running:
        yield running


def _check(program: str, *arguments: str) -> None:
    command = [str(Path(sys.executable).with_name(program)), *arguments]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_dockerfile_has_no_bad_habits() -> None:
    _check("hadolint", str(ROOT / "Dockerfile"))


def test_every_image_is_pinned_and_ours_are_built_once_and_not_pulled() -> None:
    services = read_services({}, profiles=PROFILES).values()
    images = Images().bases() | {one.image for one in services}
    assert [one for one in images if not _PLAIN_AND_PINNED.fullmatch(one)] == []
    ours = [one for one in services if one.role]
    assert {one.image for one in ours} == {
        f"tidegauge-{it}:{PROJECT['version']}" for it in ROLES
    }
    builders = [one for one in ours if one.builds]
    assert sorted(one.role or "" for one in builders) == sorted(ROLES)
    assert [one.builds for one in builders] == [one.role for one in builders]
    assert [one.name for one in ours if one.is_pulled] == []


def test_every_service_is_contained_and_bounded_and_what_stays_says_whether_it_is_well() -> (
    None
):
    for name, one in yaml.safe_load(PATH.read_text())["services"].items():
        assert one["security_opt"] == ["no-new-privileges:true"], name
        assert one["mem_limit"], name
        assert one["logging"]["options"].keys() == {"max-size", "max-file"}, name
        assert ("healthcheck" in one) == (one["restart"] != "no"), name


def test_the_images_have_every_package_and_the_flights_and_do_not_run_as_root() -> None:
    images = Images()
    copied = {one[0].rstrip("/") for one in images.instructions("wheel", "COPY")[2:]}
    packages = set(CONFIGURATION["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    assert copied == packages
    let_in = re.findall(r"^!([\w/]+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    assert set(let_in) == packages | {"examples/flights"}
    for role in ROLES:
        assert images.instructions(role, "USER")[-1] == ("10001",)
    for role in ("producer", "spark"):
        flights = ("examples/flights/", "/opt/examples/flights/")
        assert flights in images.instructions(role, "COPY")
        assert images.variables(role)["PYTHONPATH"] == "/opt"


def test_the_cluster_closes_all_windows_and_loses_no_row_though_the_holder_is_killed(
    local_cluster: LocalCluster,
) -> None:
    with Api(local_cluster.url("proxy"), "demo/flights") as api:
        local_cluster.wait_until(lambda: _watermark(api) is not None, "a mark", patience_s=60)
        local_cluster.crash(_holder(local_cluster))
        jobs = [local_cluster.processes[job] for job in ("producer", "pipeline")]
        local_cluster.wait_until(
            lambda: all(job.poll() == 0 for job in jobs),
            "the flights to be counted",
            patience_s=400,
        )
        assert api.get("watermark")["final"]
    assert "every flight has landed" in local_cluster.output("producer")
    assert "REST server" not in local_cluster.output("spark-master")
    verdict = local_cluster.output("pipeline").splitlines()[-1]
    assert verdict == "42 of 42 windows closed, 0 wrong; 0 of 690 rows lost"


@pytest.mark.soak
def test_the_flights_go_through_kafka_too_and_no_row_is_lost(tmp_path: Path) -> None:
    described = read_services(FEW_FLIGHTS, profiles=("kafka",))
    others = {"spark-master", "spark-worker", "producer", "pipeline"}
    services = {name: one for name, one in described.items() if name not in others}
    with LocalCluster(services, tmp_path) as running:
        jobs = [running.processes[job] for job in ("kafka-producer", "kafka-pipeline")]
        running.wait_until(
            lambda: all(job.poll() == 0 for job in jobs), "the flights", patience_s=200
        )
        verdict = running.output("kafka-pipeline").splitlines()[-1]
    assert verdict == "42 of 42 windows closed, 0 wrong; 0 of 690 rows lost"


def _holder(local_cluster: LocalCluster) -> str:
    """Find the controller that holds the database."""
    metrics = {name: httpx.get(f"{local_cluster.url(name)}/metrics") for name in CONTROLLERS}
    (holder,) = [it for it in metrics if "\ntidegauge_holds_database 1" in metrics[it].text]
    return holder


def _watermark(api: Api) -> int | None:
    found = api.client.get(f"{api.path}/watermark")
    watermark: int | None = found.json()["watermark"] if found.is_success else None
    return watermark


def test_every_service_is_well_by_its_own_check(
    local_cluster: LocalCluster, services: dict[str, Service]
) -> None:
    checked = {
        name: local_cluster.is_well(name) for name, one in services.items() if one.health
    }
    assert checked == dict.fromkeys(checked, True)


def test_who_hangs_up_at_the_proxy_gives_its_seat_at_the_controller_back(
    local_cluster: LocalCluster,
) -> None:
    asked = "GET /v1/streams/demo/flights/marks?after=1000000&wait_ms=30000 HTTP/1.1"
    before = local_cluster.seats_taken(*CONTROLLERS)
    with socket.create_connection(("127.0.0.1", local_cluster.port("proxy", "8470"))) as one:
        one.sendall(f"{asked}\r\nhost: proxy\r\n\r\n".encode())
        local_cluster.wait_until(
            lambda: local_cluster.seats_taken(*CONTROLLERS) > before,
            "a seat to be taken",
            patience_s=20,
        )
    local_cluster.wait_until(
        lambda: local_cluster.seats_taken(*CONTROLLERS) == before,
        "the seat to be free",
        patience_s=20,
    )


def test_a_dump_brings_everything_back(local_cluster: LocalCluster, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "upgrade-and-back-up.md").read_text()
    commands = re.findall(r"^docker compose exec -T (\S+) (.*)$", page, re.MULTILINE)
    programs = [command.split()[0] for _, command in commands]
    assert programs == ["pg_dump", "createdb", "pg_restore"]
    for service, command in commands:
        done = local_cluster.execute(service, ["sh", "-c", command])
        assert done.returncode == 0, done.stderr
    restored = local_cluster.database_url("restored")
    with (
        ServerProcess(tmp_path, database_url=restored) as server,
        Api(server.url, "demo/flights") as api,
    ):
        assert api.get("watermark")["final"]
        assert {one["state"] for one in api.get("writers")["writers"]} == {"left"}


@pytest.mark.parametrize("text", [PATH.read_text(), *EXAMPLES])
def test_the_file_and_the_examples_follow_the_compose_specification(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "compose.yml").write_text(text)
    schema = ("--builtin-schema", "vendor.compose-spec")
    _check("check-jsonschema", *schema, str(tmp_path / "compose.yml"))
    known = read_services({}, profiles=PROFILES).keys()
    assert yaml.safe_load(text)["services"].keys() <= known
