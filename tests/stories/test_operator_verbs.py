"""The operator's verbs, as typed, against a real service; Ctrl-C ends each at once."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from tests.conftest import NewServer
from tests.patience import PATIENCE_S, wait_until
from tests.postgres import Cluster
from tests.programs import python
from tests.server import Api, ServerProcess, free_port
from tests.service.operator import Operator

pytestmark = pytest.mark.only_on("sqlite", "verbs know the service only")

STREAM = "shop/orders"
NOON = 1_704_110_400_000


@pytest.fixture(scope="module")
def quiet_server(new_server: NewServer) -> Iterator[ServerProcess]:
    """A server that only these tests use, one after another."""
    with new_server() as running:
        yield running


@pytest.fixture
def api(quiet_server: ServerProcess) -> Iterator[Api]:
    with Api(quiet_server.url, STREAM) as calls:
        yield calls


@pytest.fixture
def operator(quiet_server: ServerProcess, api: Api) -> Iterator[Operator]:
    api.create(log="embedded")
    yield Operator(quiet_server.url)
    api.client.delete(api.path).raise_for_status()


def test_a_script_notes_time_and_sees_the_watermark(operator: Operator) -> None:
    said = operator.says("note-time", STREAM, "cron", "2024-01-01T12:00:00Z")
    assert said == "cron is active; watermark 2024-01-01T12:00:00.000Z\n"
    document = json.loads(operator.says("note-time", STREAM, "cron", str(NOON + 1), "--json"))
    assert document["watermark"] == NOON + 1


def test_a_time_before_1970_is_no_option(operator: Operator) -> None:
    said = operator.says("note-time", STREAM, "cron", "-9223372036854775808")
    assert said == "cron is active; watermark -9223372036854775808\n"
    mistyped = operator.type("note-time", STREAM, "cron", "-5", "--positoin", "0:0")
    assert mistyped.exit_code == 2


def test_a_refused_report_ends_with_the_reason_and_status_1(operator: Operator) -> None:
    operator.says("note-time", STREAM, "cron", str(NOON))
    refused = operator.type("note-time", STREAM, "cron", str(NOON - 1))
    assert refused.exit_code == 1
    assert "a noted time is a promise and cannot go back" in refused.output


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("why", "orders"), "'orders' names no stream; write scope/stream"),
        (("note-time", STREAM, "cron", "12:00"), "'12:00' is not an event time"),
        (("note-time", STREAM, "a b", "1"), "'a b' is not a valid name"),
        (("note-time", STREAM, "cron", "1", "--position", "7"), "'7' is not a position"),
        (
            ("note-time", STREAM, "cron", "1", "--position", "7:1,7:2"),
            "segment 7 is named twice",
        ),
        (("writers", STREAM, "--state", "gone"), "'--state': 'gone' is not one of joining,"),
        (("window", "billing", STREAM), "'billing' names no reader group; write scope/group"),
        (("window", "a/b/c", STREAM), "'a/b/c' names no reader group; write scope/group"),
        (("window", "shop/b", "orders"), "'orders' names no stream; write scope/stream"),
        (
            ("token", "new", "x", "--grant", "a:read", "--days", "9999999"),
            "'9999999' is not a whole number from 1",
        ),
        (("marks", STREAM, "--limit", "0"), "'0' is not a whole number from 1 to 1000"),
        (("marks", STREAM, "--limit", "few"), "'few' is not a whole number from 1 to 1000"),
        (("marks", STREAM, "--after", "-1"), "'-1' is not a whole number of 0 or more"),
        (
            ("note-time", STREAM, "cron", "1", "--incarnation", "0"),
            "'0' is not a whole number of 1 or more",
        ),
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
    api.many({"writer": f"w{n}", "time": NOON} for n in range(1_500))
    assert len(json.loads(operator.says("writers", STREAM, "--json"))) == 1_500


def test_why_tells_who_holds_the_watermark_and_expire_drops_it(operator: Operator) -> None:
    operator.says("register", STREAM, "slow")
    operator.says("note-time", STREAM, "fast", str(NOON + 3_600_000))
    said = operator.says("why", STREAM).splitlines()
    assert said[0].startswith("There is no mark yet: writer 'slow' (")
    assert "holds back the first mark while 'fast' waits; it is dropped in " in said[0]
    assert said[0].endswith("(its events below the watermark are then late):")
    assert said[1] == f"  tidegauge expire {STREAM} slow --url {operator.url}"
    header, slow = said[2:]
    assert slow[header.index("expires") :].split()[0] in {"59s", "1m"}
    assert operator.says("expire", STREAM, "slow").startswith("slow is expired; watermark")
    assert json.loads(operator.says("why", STREAM, "--json"))["watermark"] == NOON + 3_600_000


def test_why_lists_who_has_said_nothing_and_counts_the_rest(
    operator: Operator, api: Api
) -> None:
    api.change(aggregation_timeout_ms=None, hold_limit_ms=None)
    api.many({"writer": f"w{n:02}", "time": NOON} for n in range(31))
    api.note("fast", NOON + 60_000)
    api.post("writers/new/register")
    sentence, header, first, *rest = operator.says("why", STREAM).splitlines()
    assert "writers 'new' (no time noted yet, starts at 2024-01-01T12:00:00.000Z), " in sentence
    assert header.startswith("writer  state")
    assert first.split()[:2] == ["new", "joining"]
    assert len(rest) == 10
    assert rest[-1] == "and 22 more"


def test_why_lists_only_who_joins_while_nobody_waits(operator: Operator, api: Api) -> None:
    api.post("writers/new/register")
    sentence, _, *listed = operator.says("why", STREAM).splitlines()
    assert (
        "writer 'new' (no time noted yet) holds back the first mark while no writer" in sentence
    )
    assert [one.split()[:2] for one in listed] == [["new", "joining"]]
    api.note("new", NOON, incarnation=1)
    api.post("writers/told/register")
    (sentence,) = operator.says("why", STREAM).splitlines()
    assert (
        "no writer is ahead, 'told' registered without reporting; it rises once all 2 live "
        "writers note a later time"
    ) in sentence


def test_why_shows_no_empty_table(operator: Operator, api: Api) -> None:
    api.change(min_writers=2)
    operator.says("note-time", STREAM, "a", str(NOON))
    assert operator.says("why", STREAM) == (
        "There is no mark yet: 1 of min_writers=2 writers have reported; start the other "
        "writers, or require fewer:\n"
        f"  tidegauge configure shop/orders --min-writers 1 --url {operator.url}\n"
    )


def test_a_table_is_listed_with_its_version_and_why_names_the_job_that_holds_it(
    operator: Operator,
) -> None:
    address = "s3://lake/hourly"
    refused = operator.type("create", "lake/hourly", "--table", address)
    assert "create it with log external, segments 1" in refused.output
    words = ("--log", "external", "--segments", "1", "--table", address, "--min-writers", "2")
    operator.says("create", "lake/hourly", *words)
    assert "version" not in operator.says("streams").replace("lake/hourly", "")
    for job, time in (("nightly", 1_700_000_000_000), ("hourly", 1_700_000_060_000)):
        operator.says("note-time", "lake/hourly", job, str(time), "--position", "0:33")
    listed = operator.says("streams")
    assert "version 32" in listed
    assert address in listed
    assert "nightly" in operator.says("why", "lake/hourly")
    found = json.loads(operator.says("streams", "--json"))
    assert [one["version"] for one in found if one["stream"] == "lake/hourly"] == [32]
    operator.says("delete", "lake/hourly", "--yes")


def test_a_stream_is_sealed_only_after_a_yes(operator: Operator) -> None:
    refused = operator.type("seal", STREAM, "--json", answer="n\n")
    assert refused.exit_code == 1
    assert "Seal it?" not in refused.stdout
    assert "Nothing can be written to shop/orders afterwards. Seal it?" in refused.stderr
    assert operator.lines("streams")[1][1:3] == ["none", "yet"]
    assert operator.says("seal", STREAM, "--yes") == "shop/orders is sealed at 0:0\n"
    assert operator.lines("streams")[1][1:5] == ["the", "end", "of", "time"]


def test_groups_and_their_windows_are_shown(operator: Operator, api: Api) -> None:
    operator.says("note-time", STREAM, "a", str(NOON))
    api.client.put("/v1/reader-groups/shop/billing", json={"streams": [STREAM]})
    api.client.post("/v1/reader-groups/shop/billing/readers/r1")
    assert operator.lines("groups")[1] == [
        *("shop/billing", STREAM, "r1", "0", "1", "caught", "up")
    ]
    assert operator.says("window", "shop/billing", STREAM).splitlines() == [
        "lower     2024-01-01T12:00:00.000Z",
        "upper     at the tail",
        "watermark 2024-01-01T12:00:00.000Z",
        "position  0:0",
    ]
    assert operator.lines("window", "shop/billing")[1] == [
        *(STREAM, "2024-01-01T12:00:00.000Z", "at", "the", "tail"),
        *("2024-01-01T12:00:00.000Z", "caught", "up", "0:0"),
    ]


def test_the_lag_of_a_query_is_shown_with_the_writers_of_late_rows(
    operator: Operator, api: Api
) -> None:
    path = "/v1/reader-groups/shop/lagging"
    api.client.put(path, json={"streams": [STREAM]})
    nothing = operator.says("lag", "shop/lagging")
    assert nothing.startswith("no query has reported as shop/lagging for 5 minutes;")
    reported: dict[str, object]
    reported = {"bound": NOON, "lag_ms": 61_000, "backlog": 40, "late": 7, "late_by_ms": 90_000}
    reported |= {"late_writers": {"b": 2, "a": 5}, "state_bytes": 4_096, "late_output": 3}
    api.client.post(f"{path}/progress", json=reported).raise_for_status()
    assert operator.says("lag", "shop/lagging").splitlines()[:-1] == [
        "bound     2024-01-01T12:00:00.000Z",
        "lag       1m 1s",
        "backlog   40 rows",
        "state     4096 bytes",
        "late      7 rows, by up to 1m 30s: a 5, b 2",
        "late out  3 rows late for all their windows, 0 for some of them",
    ]
    document = json.loads(operator.says("lag", "shop/lagging", "--json"))
    assert document["progress"].items() >= reported.items()


def test_a_window_of_a_stream_that_the_group_does_not_read(
    operator: Operator, api: Api
) -> None:
    api.client.put("/v1/reader-groups/shop/audit", json={"streams": [STREAM]})
    refused = operator.type("window", "shop/audit", "shop/other")
    assert refused.exit_code == 1
    assert "'shop/other' is not read by the group; it reads shop/orders" in refused.output


def test_a_time_before_1970_is_written_after_two_dashes(operator: Operator) -> None:
    assert operator.says("note-time", STREAM, "--", "old", "-5").startswith("old is active;")


def test_an_outage_is_told_as_one() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    nobody = Operator(url).type("streams")
    assert nobody.exit_code == 1
    begun, given_up = nobody.output.splitlines()
    assert begun.startswith(f"tidegauge: retrying {url} for up to 3 s: ")
    assert given_up.startswith(f"tidegauge: no answer from {url}: ")
    assert given_up.endswith("is the service running there?")


def test_marks_are_the_newest_unless_told_otherwise(operator: Operator) -> None:
    for step in range(5):
        operator.says("note-time", STREAM, "a", str(NOON + step * 60_000))
    assert operator.revisions("marks", STREAM, "--limit", "2") == [4, 5]
    assert operator.revisions("marks", STREAM, "--limit", "2", "--after", "0") == [1, 2]


def test_a_reader_that_has_seen_enough_of_a_list_ends_it(operator: Operator, api: Api) -> None:
    api.many({"writer": f"w{n}", "time": NOON} for n in range(5_000))
    with operator.start("writers", STREAM) as listing:
        assert listing.stdout is not None
        assert listing.stderr is not None
        assert listing.stdout.readline().split()[:2] == ["writer", "state"]
        listing.stdout.close()
        assert listing.stderr.read() == ""
        assert listing.wait(timeout=PATIENCE_S) == 1


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [("writers", STREAM), ("why", STREAM, "--json")])
def test_an_output_that_cannot_be_written_is_told_in_one_line(
    operator: Operator, words: tuple[str, ...], unbuffered: str
) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "tidegauge_cli", *words, "--url", operator.url],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    reason = "tidegauge: cannot write the output: No space left on device\n"
    assert (ended.returncode, ended.stderr) == (1, reason)


def test_watch_tells_every_change_until_it_is_interrupted(operator: Operator) -> None:
    with operator.start("watch", STREAM, "--json") as watching:
        assert watching.stdout is not None
        assert json.loads(watching.stdout.readline())["watermark"] is None
        operator.says("note-time", STREAM, "a", str(NOON))
        assert json.loads(watching.stdout.readline())["watermark"] == NOON
        operator.says("note-time", STREAM, "b", str(NOON + 1))
        held = json.loads(watching.stdout.readline())["explanation"]
        assert [one["writer"] for one in held["holders"]] == ["a"]
        watching.send_signal(signal.SIGINT)
        assert watching.wait(timeout=PATIENCE_S) == 130


@contextmanager
def _watching(api: Api) -> Iterator[tuple["subprocess.Popen[str]", IO[str], IO[str]]]:
    """Watch a new stream; yields the program, what it tells and what it warns of."""
    api.create()
    with Operator(str(api.client.base_url)).start("watch", api.name) as watching:
        assert watching.stdout is not None
        assert watching.stderr is not None
        assert watching.stdout.readline().startswith(
            "There is no mark yet: the stream has no writer"
        )
        yield watching, watching.stdout, watching.stderr


def test_watch_follows_an_external_log_through_an_outage_to_its_seal(
    server: ServerProcess,
) -> None:
    with Api(server.url) as api, _watching(api) as (watching, told, warned):
        server.kill()
        assert "is the service running there?" in warned.readline()
        server.start()
        api.note("a", NOON, 4)
        assert "2024-01-01T12:00:00.000Z" in told.readline()
        assert warned.readline() == "tidegauge: the service answers again\n"
        api.post("seal", position={"0": 4})
        assert told.readline().startswith("The stream is sealed")
        assert watching.wait(timeout=PATIENCE_S) == 0


def test_watch_waits_for_a_database_that_is_away(tmp_path: Path, own_cluster: Cluster) -> None:
    with (
        ServerProcess(tmp_path, database_url=own_cluster.database(), lease_ms=500) as server,
        Api(server.url) as api,
        _watching(api) as (watching, told, warned),
    ):
        own_cluster.stop()
        assert "unavailable: nothing was stored" in warned.readline()
        own_cluster.start()
        wait_until(lambda: api.client.get("/readyz").is_success)
        api.note("a", NOON, 4)
        assert "2024-01-01T12:00:00.000Z" in told.readline()
        watching.send_signal(signal.SIGINT)
        assert watching.wait(timeout=PATIENCE_S) == 130


_LOADING = """
import signal, sys, threading
sys.argv = ["tidegauge", *{words!r}]
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
from tidegauge_cli import main
main()
"""


@pytest.mark.parametrize(
    ("words", "module"),
    [
        (["streams"], "tidegauge_cli.extras"),
        (["streams"], "typer"),
        (["streams"], "tidegauge.wire.streams"),
        (["serve", "--port", "0"], "controller.commit.sequencer"),
    ],
)
def test_ctrl_c_ends_a_verb_while_it_loads(words: list[str], module: str) -> None:
    with python("-c", _LOADING.format(words=words, module=module)) as process:
        said, complained = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, said, complained) == (-signal.SIGINT, "", "")


def test_ctrl_c_ends_a_verb_while_it_waits_for_an_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with python("-m", "tidegauge_cli", "streams", "--url", url) as process:
            connection, _ = silent.accept()
            connection.recv(1)
            process.send_signal(signal.SIGINT)
            said, complained = process.communicate(timeout=PATIENCE_S)
            connection.close()
    assert (process.returncode, said, complained) == (130, "", "")
