"""docker-compose.yml and the Dockerfile: what they say is what works."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.compose import PATH, Service, read_services
from tests.acceptance.images import CONFIGURATION, PROJECT, ROOT, Images
from tests.acceptance.local_cluster import LocalCluster
from tests.server import Api

FEW_FLIGHTS = {"TIDEGAUGE_DEMO_DAYS": "1", "TIDEGAUGE_DEMO_SPEED": "50000"}
_PLAIN_AND_PINNED = re.compile(r"[a-z][a-z-]*:\d[\w.]*(-[a-z]+)*")


@pytest.fixture(scope="module")
def services() -> dict[str, Service]:
    return read_services(FEW_FLIGHTS)


@pytest.fixture(scope="module")
def local_cluster(
    services: dict[str, Service], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalCluster]:
    with LocalCluster(services, tmp_path_factory.mktemp("cluster")) as running:
        yield running


def _run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name(program)), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_file_follows_the_compose_specification() -> None:
    checked = _run("check-jsonschema", "--builtin-schema", "vendor.compose-spec", str(PATH))
    assert checked.returncode == 0, checked.stdout


def test_the_dockerfile_has_no_bad_habits() -> None:
    linted = _run("hadolint", str(ROOT / "Dockerfile"))
    assert linted.stdout + linted.stderr == ""


def test_every_image_has_a_plain_name_and_a_version(services: dict[str, Service]) -> None:
    images = Images().bases() | {one.image for one in services.values()}
    assert [one for one in images if not _PLAIN_AND_PINNED.fullmatch(one)] == []
    ours = {one.image for one in services.values() if one.role}
    assert ours == {
        f"tidegauge-{role}:{PROJECT['version']}" for role in ("controller", "producer", "spark")
    }


def test_every_service_that_stays_says_whether_it_is_well(
    services: dict[str, Service],
) -> None:
    jobs = {"migrate", "producer", "pipeline"}
    assert {name for name, one in services.items() if not one.health} == jobs


def test_no_image_of_ours_runs_as_root() -> None:
    images = Images()
    users = {role: images.instructions(role, "USER")[-1] for role in _roles(images)}
    assert users == dict.fromkeys(("controller", "producer", "spark"), ("10001",))


def test_the_images_are_made_of_every_package() -> None:
    copied = {one[0].rstrip("/") for one in Images().instructions("build", "COPY")[1:]}
    packages = set(CONFIGURATION["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    assert copied == packages
    let_in = re.findall(r"^!(\w+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    assert set(let_in) == packages


def _roles(images: Images) -> list[str]:
    return [one for one in images.stages if f"build-{one}" in images.stages]


@pytest.mark.timeout(240)
def test_the_cluster_closes_all_windows_and_loses_no_row(local_cluster: LocalCluster) -> None:
    jobs = ("producer", "pipeline")
    local_cluster.wait_until(
        lambda: all(local_cluster.process(job).poll() == 0 for job in jobs),
        "the flights to be counted",
        patience_s=150,
    )
    assert "every flight has landed" in local_cluster.output("producer")
    verdict = local_cluster.output("pipeline").splitlines()[-1]
    assert verdict == "42 of 42 windows closed, 0 wrong; 0 of 690 rows lost; Spark dropped 0"
    with Api(f"http://127.0.0.1:{local_cluster.port('proxy', '8470')}", "demo/flights") as api:
        assert api.get("watermark")["final"]


def test_every_service_is_well_by_its_own_check(
    local_cluster: LocalCluster, services: dict[str, Service]
) -> None:
    checked = {
        name: local_cluster.is_well(name) for name, one in services.items() if one.health
    }
    assert checked == dict.fromkeys(checked, True)
