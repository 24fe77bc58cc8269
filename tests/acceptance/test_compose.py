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

PAGES = ROOT / "docs" / "how-to"
CONTROLLERS = ("controller-1", "controller-2", "controller-3")
FEW_FLIGHTS = {"FLIGHTS_DAYS": "1", "FLIGHTS_SPEED": "50000"}
_PLAIN_AND_PINNED = re.compile(r"([a-z]+/)?[a-z][a-z-]*:v?\d[\w.]*(-[a-z]+)*")
_PROFILES = ("kafka", "observe", "three")


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


def _run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name(program)), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _check_schema(path: Path) -> None:
    checked = _run("check-jsonschema", "--builtin-schema", "vendor.compose-spec", str(path))
    assert checked.returncode == 0, checked.stdout


def test_the_file_follows_the_compose_specification() -> None:
    _check_schema(PATH)


def test_the_dockerfile_has_no_bad_habits() -> None:
    linted = _run("hadolint", str(ROOT / "Dockerfile"))
    assert linted.stdout + linted.stderr == ""


def test_every_image_has_a_plain_name_and_a_version() -> None:
    services = read_services({}, profiles=_PROFILES)
    images = Images().bases() | {one.image for one in services.values()}
    assert [one for one in images if not _PLAIN_AND_PINNED.fullmatch(one)] == []
    ours = {one.image for one in services.values() if one.role}
    assert ours == {
        f"tidegauge-{role}:{PROJECT['version']}" for role in ("controller", "producer", "spark")
    }


def test_one_service_of_each_image_of_ours_builds_it_and_nobody_pulls_it() -> None:
    ours = [one for one in read_services({}, profiles=_PROFILES).values() if one.role]
    builders = [one for one in ours if one.builds]
    assert sorted(one.image for one in builders) == sorted({one.image for one in ours})
    assert [one.builds for one in builders] == [one.role for one in builders]
    assert [one.name for one in ours if one.is_pulled] == []


def test_every_service_is_contained_and_bounded() -> None:
    for name, one in yaml.safe_load(PATH.read_text())["services"].items():
        assert one["security_opt"] == ["no-new-privileges:true"], name
        assert one["mem_limit"], name
        assert one["logging"]["options"].keys() == {"max-size", "max-file"}, name


def test_every_service_that_stays_says_whether_it_is_well() -> None:
    services = read_services({}, profiles=_PROFILES)
    jobs = {"migrate", "producer", "pipeline", "kafka-producer", "kafka-pipeline"}
    assert {name for name, one in services.items() if not one.health} == jobs


def test_no_image_of_ours_runs_as_root() -> None:
    images = Images()
    users = {role: images.instructions(role, "USER")[-1] for role in _roles(images)}
    assert users == dict.fromkeys(("controller", "producer", "spark"), ("10001",))


def test_the_images_are_made_of_every_package() -> None:
    copied = {one[0].rstrip("/") for one in Images().instructions("wheel", "COPY")[2:]}
    packages = set(CONFIGURATION["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    assert copied == packages
    let_in = re.findall(r"^!([\w/]+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    assert set(let_in) == packages | {"examples/flights"}


def test_writers_and_queries_find_the_flights_in_their_images() -> None:
    for role in ("producer", "spark"):
        copied = [one for one in Images().instructions(role, "COPY") if len(one) == 2]
        assert ("examples/flights/", "/opt/examples/flights/") in copied
        assert Images().variables(role)["PYTHONPATH"] == "/opt"


def _roles(images: Images) -> list[str]:
    return [one for one in images.stages if f"build-{one}" in images.stages]


def test_the_cluster_closes_all_windows_and_loses_no_row_though_the_holder_is_killed(
    local_cluster: LocalCluster,
) -> None:
    with Api(f"http://127.0.0.1:{local_cluster.port('proxy', '8470')}", "demo/flights") as api:
        local_cluster.wait_until(lambda: _watermark(api) is not None, "a mark", patience_s=60)
        local_cluster.crash(_holder(local_cluster))
        jobs = [local_cluster.process(job) for job in ("producer", "pipeline")]
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
        jobs = [running.process(job) for job in ("kafka-producer", "kafka-pipeline")]
        running.wait_until(
            lambda: all(job.poll() == 0 for job in jobs), "the flights", patience_s=200
        )
        verdict = running.output("kafka-pipeline").splitlines()[-1]
    assert verdict == "42 of 42 windows closed, 0 wrong; 0 of 690 rows lost"


def _holder(local_cluster: LocalCluster) -> str:
    """Find the controller that holds the database."""
    held = "tidegauge_holds_database 1"
    for name in CONTROLLERS:
        url = f"http://127.0.0.1:{local_cluster.port(name, '8470')}/metrics"
        if held in httpx.get(url).text:
            return name
    pytest.fail("nobody holds the database")


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
    page = (PAGES / "upgrade-and-back-up.md").read_text()
    commands = re.findall(r"^docker compose exec -T (\S+) (.*)$", page, re.MULTILINE)
    assert [command.split()[0] for _, command in commands] == [
        "pg_dump",
        "createdb",
        "pg_restore",
    ]
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


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_examples_follow_the_specification(
    services: dict[str, Service], tmp_path: Path, example: str
) -> None:
    (tmp_path / "override.yml").write_text(example)
    _check_schema(tmp_path / "override.yml")
    assert yaml.safe_load(example)["services"].keys() <= services.keys()
