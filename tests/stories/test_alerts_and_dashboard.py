"""The alerts and the dashboard: of metrics that exist, and as a real Prometheus takes them."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import promql_parser
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from deploy import dashboard
from tests.conftest import NewServer
from tests.patience import wait_until
from tests.server import ServerProcess, free_port
from tests.service.api import Api

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
RULES = yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"][0]["rules"]
NOW = 1_700_000_000_000
Series = dict[str, list[dict[str, str]]]


def _dashboard_queries() -> list[str]:
    """Read what the panels ask, with what Grafana puts into it."""
    panels = json.loads(dashboard.PATH.read_text())["panels"]
    queries = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    return [one.replace("$__rate_interval", "1m").replace("$stream", ".*") for one in queries]


@pytest.fixture
def series(shared_server: ServerProcess) -> Series:
    """What a service shows that has seen some of everything."""
    _use(shared_server)
    shown: Series = {}
    for family in text_string_to_metric_families(shared_server.metrics()):
        for sample in family.samples:
            shown.setdefault(sample.name, []).append(dict(sample.labels))
    return shown


def _use(server: ServerProcess) -> None:
    with Api(server.url, "tests/observed") as api:
        api.create(log="embedded")
        api.note("w", NOW)
        group = {"streams": ["tests/observed"]}
        path = "/v1/reader-groups/tests/observers"
        api.client.put(path, json=group).raise_for_status()
        told = {"bound": NOW, "lag_ms": 0, "backlog": 0, "late_writers": {"w": 1}}
        told |= {"late": 1, "state_bytes": 0}
        api.client.post(f"{path}/progress", json=told).raise_for_status()


def test_every_query_names_metrics_and_labels_that_exist(series: Series) -> None:
    for query in [rule["expr"] for rule in RULES] + _dashboard_queries():
        selectors = list(_selectors(promql_parser.parse(query)))
        assert selectors, query
        for name, labels in selectors:
            assert name in series, query
            for one in series[name]:
                assert labels <= one.keys(), query


def _selectors(expression: promql_parser.Expr) -> Iterator[tuple[str, set[str]]]:
    found: list[tuple[str, set[str]]] = []

    def visit(node: Any) -> bool:
        if isinstance(node, promql_parser.VectorSelector):
            assert node.name is not None
            found.append((node.name, {one.name for one in node.matchers.matchers}))
        return True

    promql_parser.walk(expression, visit)
    yield from found


def test_the_dashboard_is_what_its_script_makes() -> None:
    assert dashboard.PATH.read_text() == dashboard.draw(), "run: python -m deploy.dashboard"


def test_the_documentation_lists_every_alert_with_its_severity() -> None:
    text = (ROOT / "docs" / "how-to" / "alerts.md").read_text()
    listed = re.findall(r"^\| `(Tidegauge\w+)` \| (\w+) \|", text, re.MULTILINE)
    assert listed == [(rule["alert"], rule["labels"]["severity"]) for rule in RULES]


def test_the_alerts_fire_when_they_should_and_wake_nobody_for_quiet_or_finished_streams() -> (
    None
):
    for command in (
        ["check", "config", str(DEPLOY / "prometheus.yml")],
        ["test", "rules", str(DEPLOY / "alerts_test.yml")],
    ):
        done = subprocess.run(
            ["promtool", *command], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.only_on("sqlite", "Prometheus knows the service only")
def test_prometheus_evaluates_every_alert_and_every_panel_of_a_real_service(
    new_server: NewServer, tmp_path: Path
) -> None:
    with new_server() as server, _prometheus(server, tmp_path) as api:
        _use(server)
        wait_until(lambda: _ask(api, "query", query="tidegauge_streams")["result"] != [])
        for query in _dashboard_queries():
            assert _ask(api, "query", query=query)["resultType"] == "vector"
        wait_until(lambda: {one["health"] for one in _rules(api)} == {"ok"})
        assert "firing" not in {one["state"] for one in _rules(api)}


def _rules(api: httpx.Client) -> list[Any]:
    return [rule for group in _ask(api, "rules")["groups"] for rule in group["rules"]]


def _ask(api: httpx.Client, call: str, **params: str) -> Any:
    return api.get(f"/api/v1/{call}", params=params).raise_for_status().json()["data"]


@contextmanager
def _prometheus(server: ServerProcess, directory: Path) -> Iterator[httpx.Client]:
    """Start Prometheus as the cluster does, for one service and in a hurry."""
    config = (DEPLOY / "prometheus.yml").read_text()
    config = re.sub(r"targets: .*", f'targets: ["127.0.0.1:{server.port}"]', config)
    config = re.sub(r"(interval): \d+s", r"\1: 1s", config)
    (directory / "prometheus.yml").write_text(config)
    shutil.copy(DEPLOY / "alerts.yml", directory)
    at = f"127.0.0.1:{free_port()}"
    options = ["--config.file=prometheus.yml", f"--web.listen-address={at}"]
    with (directory / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            ["prometheus", *options], cwd=directory, stdout=log, stderr=log
        )
    try:
        with httpx.Client(base_url=f"http://{at}") as client:
            wait_until(lambda: _is_ready(process, client))
            yield client
    finally:
        process.kill()
        process.wait()


def _is_ready(process: subprocess.Popen[bytes], client: httpx.Client) -> bool:
    assert process.poll() is None
    try:
        return client.get("/-/ready").is_success
    except httpx.TransportError:
        return False
