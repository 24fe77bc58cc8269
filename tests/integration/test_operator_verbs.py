"""The operator's verbs, as typed, against a real service."""

import json
import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner, Result

from tests.server import Api, ServerProcess, free_port
from tidegauge_cli.main import app

STREAM = "shop/orders"
NOON = 1_704_110_400_000


class Operator:
    """Types verbs."""

    def __init__(self, url: str) -> None:
        self.url = url

    def type(self, *words: str, answer: str = "") -> Result:
        environment = {"TIDEGAUGE_URL": self.url, "COLUMNS": "120"}
        return CliRunner().invoke(app, list(words), env=environment, input=answer)

    def says(self, *words: str, answer: str = "") -> str:
        result = self.type(*words, answer=answer)
        assert result.exit_code == 0, result.output
        return result.stdout

    def lines(self, *words: str) -> list[list[str]]:
        return [line.split() for line in self.says(*words).splitlines()]


@pytest.fixture
def operator(server: ServerProcess, api: Api) -> Operator:
    settings = {"segments": 1, "mark_interval_ms": 0}
    api.client.put(f"/v1/streams/{STREAM}", json=settings)
    return Operator(server.url)


def test_a_script_notes_time_and_sees_the_watermark(operator: Operator) -> None:
    said = operator.says("note-time", STREAM, "cron", "2024-01-01T12:00:00Z")
    assert said == "cron is active; watermark 2024-01-01T12:00:00.000Z\n"
    document = json.loads(operator.says("note-time", STREAM, "cron", str(NOON + 1), "--json"))
    assert document["watermark"] == NOON + 1


def test_a_refused_report_ends_with_the_reason_and_status_1(operator: Operator) -> None:
    operator.says("note-time", STREAM, "cron", str(NOON))
    refused = operator.type("note-time", STREAM, "cron", str(NOON - 1))
    assert refused.exit_code == 1
    assert "a noted time is a promise and cannot go back" in refused.output


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("why", "orders"), "'orders' names no stream; write scope/stream"),
        (("note-time", STREAM, "cron", "12:00"), "'12:00' is no event time"),
        (("note-time", STREAM, "a b", "1"), "'a b' is no valid name"),
        (("note-time", STREAM, "cron", "1", "--position", "7"), "'7' is no position"),
        (("writers", STREAM, "--state", "gone"), "'gone' is not one of"),
    ],
)
def test_a_wrong_argument_is_named_with_the_cure(
    operator: Operator, words: tuple[str, ...], problem: str
) -> None:
    refused = operator.type(*words)
    assert refused.exit_code == 2
    assert problem in " ".join(refused.output.replace("│", " ").split())


def test_streams_writers_and_marks_are_listed(operator: Operator) -> None:
    operator.says("note-time", STREAM, "a", str(NOON))
    operator.says("note-time", STREAM, "a", str(NOON + 60_000))
    assert operator.lines("streams")[1][:2] == [STREAM, "2024-01-01T12:01:00.000Z"]
    assert operator.lines("writers", STREAM)[1][:4] == [
        "a",
        "active",
        "0",
        "2024-01-01T12:01:00.000Z",
    ]
    assert operator.lines("marks", STREAM, "--after", "1")[1:] == [
        ["2", "2024-01-01T12:01:00.000Z", "2024-01-01T12:01:00.000Z", "0:0"]
    ]
    listed = json.loads(operator.says("writers", STREAM, "--state", "left", "--json"))
    assert listed == []


def test_a_long_list_is_shown_to_its_end(operator: Operator, api: Api) -> None:
    reports = [{"stream": STREAM, "writer": f"w{n}", "time": NOON} for n in range(1_500)]
    api.client.post("/v1/note-times", json={"reports": reports})
    assert len(json.loads(operator.says("writers", STREAM, "--json"))) == 1_500


def test_why_tells_who_holds_the_watermark_and_expire_drops_it(operator: Operator) -> None:
    operator.says("note-time", STREAM, "slow", str(NOON))
    operator.says("note-time", STREAM, "fast", str(NOON + 3_600_000))
    said = operator.says("why", STREAM)
    assert "2024-01-01T12:00:00.000Z" in said
    assert "writer 'slow' (1h of event time behind" in said
    assert "holds it while 'fast' waits; it is dropped in " in said
    assert said.splitlines()[0].endswith("late then): tidegauge expire shop/orders slow.")
    assert operator.says("expire", STREAM, "slow").startswith("slow is expired; watermark")
    assert json.loads(operator.says("why", STREAM, "--json"))["watermark"] == NOON + 3_600_000


def test_a_stream_is_sealed_only_after_a_yes(operator: Operator) -> None:
    assert operator.type("seal", STREAM, answer="n\n").exit_code == 1
    assert operator.lines("streams")[1][1:3] == ["none", "yet"]
    assert operator.says("seal", STREAM, "--yes") == "shop/orders is sealed at 0:0\n"
    assert operator.lines("streams")[1][1:5] == ["the", "end", "of", "time"]


def test_groups_and_their_windows_are_shown(operator: Operator, api: Api) -> None:
    operator.says("note-time", STREAM, "a", str(NOON))
    api.client.put("/v1/reader-groups/shop/billing", json={"streams": [STREAM]})
    api.client.post("/v1/reader-groups/shop/billing/readers/r1")
    assert operator.lines("groups")[1] == ["shop/billing", STREAM, "r1", "0", "1"]
    assert operator.says("window", "shop/billing", STREAM).splitlines() == [
        "lower     2024-01-01T12:00:00.000Z",
        "upper     none yet",
        "watermark 2024-01-01T12:00:00.000Z",
        "position  0:0",
    ]


def test_an_outage_is_told_as_one() -> None:
    nobody = Operator(f"http://127.0.0.1:{free_port()}").type("streams")
    assert nobody.exit_code == 1
    assert "is the service running there?" in nobody.output


def test_watch_tells_every_change_until_it_is_interrupted(operator: Operator) -> None:
    command = [sys.executable, "-m", "tidegauge_cli", "watch", STREAM, "--url", operator.url]
    with subprocess.Popen([*command, "--json"], stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        assert json.loads(watching.stdout.readline())["watermark"] is None
        operator.says("note-time", STREAM, "a", str(NOON))
        assert json.loads(watching.stdout.readline())["watermark"] == NOON
        watching.send_signal(signal.SIGINT)
        assert watching.wait(timeout=20) == 130
