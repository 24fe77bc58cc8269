"""Verbs from the beginning of a stream to its end, and waiting for an hour to be complete."""

import json
import re
import signal
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.testing import CliRunner

from tests.patience import PATIENCE_S
from tests.server import Api, ServerProcess
from tests.service.operator import Operator
from tidegauge.wire.streams import ChangeStream, CreateStream
from tidegauge_cli.verbs import app, whole_command

pytestmark = pytest.mark.only_on("sqlite", "verbs know the service only")

NOON = 1_704_110_400_000
NOON_ISO = "2024-01-01T12:00:00Z"
_NUMBERS = count(1)


@pytest.fixture
def stream() -> str:
    """A name that no other test has."""
    return f"life/stream-{next(_NUMBERS)}"


@pytest.fixture
def operator(shared_server: ServerProcess) -> Operator:
    return Operator(shared_server.url)


@pytest.fixture
def api(shared_server: ServerProcess, stream: str) -> Iterator[Api]:
    with Api(shared_server.url, stream) as calls:
        yield calls


def _config(api: Api) -> Any:
    return api.client.get(api.path).raise_for_status().json()["config"]


def _commands(one: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(one, TyperGroup):
        for name, command in one.commands.items():
            yield from _commands(command, *path, name)
    else:
        yield path, one


def test_every_verb_shows_an_example_of_itself() -> None:
    for path, command in _commands(whole_command()):
        example = f"Example: tidegauge {' '.join(path)} "
        assert f"{command.epilog} ".startswith(example), path


def test_help_names_what_is_typed_in_plain_words() -> None:
    for path, _ in _commands(whole_command()):
        shown = CliRunner().invoke(app, [*path, "-h"], env={"COLUMNS": "120"}).output
        types = re.findall(r"<(.+?)>", shown)
        assert set(types) <= {"bool", "list[str]", "list[text]", "path", "str", "text"}, path
        assert types.count("bool") == 1, path  # of --help itself; a flag takes no value


def test_words_are_completed_by_the_shell() -> None:
    asked = {
        "_TIDEGAUGE_COMPLETE": "complete_bash",
        "COMP_WORDS": "tidegauge st",
        "COMP_CWORD": "1",
    }
    completed = CliRunner().invoke(app, [], prog_name="tidegauge", env=asked)
    assert (completed.exit_code, completed.output) == (0, "streams\n")


def test_every_setting_is_an_option_of_the_verbs_that_take_it() -> None:
    verbs = dict(_commands(whole_command()))
    created, changed = ({one.name for one in verbs[v,].params} for v in ("create", "configure"))
    assert created >= CreateStream.model_fields.keys()
    fixed = {"segments", "log"}
    assert changed >= ChangeStream.model_fields.keys() - fixed
    assert not changed & fixed


def test_a_stream_is_created_once_and_the_same_again_changes_nothing(
    operator: Operator, stream: str
) -> None:
    words = ("create", stream, "--segments", "2", "--min-writers", "2", "--log", "external")
    assert operator.says(*words) == f"{stream} is created: external, 2 segments\n"
    assert operator.says(*words) == f"{stream} is unchanged: external, 2 segments\n"
    differing = operator.type(
        "create", stream, "--mark-retention-ms", "5", "--min-writers", "1"
    )
    assert differing.exit_code == 1
    assert (
        f"min_writers is 2, not 1, mark_retention_ms is null, not 5; to change it: "
        f"tidegauge configure {stream} --min-writers 1 --mark-retention-ms 5 (in Python"
    ) in differing.output
    fixed = operator.type("create", stream, "--segments", "3")
    assert "segments is 2, not 3; this cannot change: leave it out, or create" in fixed.output


def test_settings_are_changed_and_null_is_a_value(
    operator: Operator, api: Api, stream: str
) -> None:
    api.create()
    said = operator.says(
        "configure", stream, "--aggregation-timeout-ms", "null", "--min-writers", "0"
    )
    assert said == f"{stream}: aggregation_timeout_ms is null, was 60000\n"
    again = operator.says("configure", stream, "--aggregation-timeout-ms", "null")
    assert again == f"{stream}: unchanged\n"
    assert _config(api)["aggregation_timeout_ms"] is None
    assert (
        "name a setting, such as --min-writers 2" in operator.type("configure", stream).output
    )
    refused = operator.type("configure", stream, "--min-writers", "some")
    assert (refused.exit_code, "'some' cannot be read" in refused.output) == (2, True)
    nothing = operator.type("configure", stream, "--min-writers", "null")
    assert (nothing.exit_code, "'null' cannot be read" in nothing.output) == (2, True)


def test_a_scaling_policy_is_written_as_values_by_name(
    operator: Operator, api: Api, stream: str
) -> None:
    api.create(log="embedded", segments=2)
    said = operator.says("configure", stream, "--scaling", "events_per_s=100,min_segments=2")
    assert said == (
        f'{stream}: scaling is {{"events_per_s": 100, "bytes_per_s": null, "window_ms": 120000, '
        '"cooldown_ms": 600000, "min_segments": 2}, was \'fixed\'\n'
    )
    operator.says("configure", stream, "--scaling", "null")
    assert _config(api)["scaling"] == "fixed"


@pytest.mark.parametrize(
    ("option", "typed", "said"),
    [
        ("--segments", "zwei", "'zwei' cannot be read; write a whole number, such as 4"),
        ("--segments", "0", "'0' is below 1; write a whole number"),
        ("--min-writers", "null", "'null' cannot be read; write a whole number"),
        (
            "--hold-limit-ms",
            "7x",
            "'7x' cannot be read; write a length of time, such as 90s, 10m",
        ),
        ("--hold-limit-ms", "99999d", "'99999d' is above 315360000000; write a length of time"),
        (
            "--retention",
            "7",
            "'7' cannot be read; write an age, a size or both, such as 7d,10GB",
        ),
        ("--retention", "bytes=0", "has bytes, which is below 1; write an age, a size or both"),
        (
            "--scaling",
            "1000",
            "'1000' cannot be read; write fixed, or a target for each segment",
        ),
        ("--scaling", "load=3", "has load, which is not known; write fixed, or a target for"),
        (
            "--scaling",
            "window_ms=5s",
            "is not taken: give one target, events_per_s or bytes_per_s",
        ),
        ("--log", "kafka", "'kafka' cannot be read; write embedded or external"),
    ],
)
def test_a_setting_that_cannot_be_read_is_told_in_the_words_of_options(
    option: str, typed: str, said: str
) -> None:
    refused = CliRunner().invoke(app, ["create", "a/b", option, typed], env={"COLUMNS": "200"})
    assert refused.exit_code == 2
    assert f"Invalid value for '{option}': " in refused.output
    assert said in " ".join(refused.output.split())


def test_lengths_of_time_and_sizes_are_written_with_their_unit(
    operator: Operator, api: Api, stream: str
) -> None:
    lasting = (
        "--retention",
        "7d,10GB",
        "--aggregation-timeout-ms",
        "90s",
        "--hold-limit-ms",
        "10m",
    )
    operator.says("create", stream, *lasting, "--mark-interval-ms", "250")
    config = _config(api)
    assert config["retention"] == {"age_ms": 604_800_000, "bytes": 10_000_000_000}
    assert (config["aggregation_timeout_ms"], config["hold_limit_ms"]) == (90_000, 600_000)
    assert config["mark_interval_ms"] == 250
    operator.says("configure", stream, "--retention", "age_ms=1h,bytes=2MiB")
    assert _config(api)["retention"] == {"age_ms": 3_600_000, "bytes": 2_097_152}
    operator.says("configure", stream, "--scaling", "bytes_per_s=5MB,window_ms=1m")
    assert _config(api)["scaling"]["bytes_per_s"] == 5_000_000
    assert _config(api)["scaling"]["window_ms"] == 60_000


def test_segments_are_split_merged_and_scaled_in_any_way(
    operator: Operator, api: Api, stream: str
) -> None:
    api.create(log="embedded", segments=2)
    assert operator.says("scale", stream, "--split", "0") == (
        "segment 0 is sealed at 0\n"
        "segment 2 owns keys from 0 to 0.25, after 0\n"
        "segment 3 owns keys from 0.25 to 0.5, after 0\n"
    )
    assert operator.says("scale", stream, "--merge", "1,3") == (
        "segment 1 is sealed at 0\n"
        "segment 3 is sealed at 0\n"
        "segment 4 owns keys from 0.25 to 1, after 1, 3\n"
    )
    said = operator.says("scale", stream, "--seal", "4,2", "--into", "0-0.1,0.1-1", "--json")
    assert [one["predecessors"] for one in json.loads(said)["segments"]] == [[2], [2, 4]]
    refused = operator.type("scale", stream, "--merge", "5,9")
    assert (refused.exit_code, "there is no segment 9" in refused.output) == (1, True)
    for words in [(), ("--split", "5", "--merge", "5,6"), ("--seal", "5")]:
        usage = operator.type("scale", stream, *words)
        assert (usage.exit_code, "give one of --split" in usage.output) == (2, True)


def test_a_stream_is_truncated_at_a_cut_or_a_time_and_by_its_retention(
    operator: Operator, api: Api, stream: str
) -> None:
    api.create(log="embedded", segments=1)
    lines = "".join(f'{{"key": "k", "event_time": {n}, "value": ""}}\n' for n in range(10))
    ndjson = {"content-type": "application/x-ndjson"}
    api.client.post(f"{api.path}/events", content=lines, headers=ndjson).raise_for_status()
    said = operator.says("truncate", stream, "--cut", "0:3", "--yes")
    assert said == f"{stream} begins at 0:3\n"
    said = operator.says(
        "truncate", stream, "--time", "1970-01-01T00:00:00.005Z", "--yes", "--json"
    )
    assert json.loads(said)["first_cut"] == {"0": 5}
    beyond = operator.type("truncate", stream, "--cut", "0:11", "--yes")
    assert (beyond.exit_code, "it goes from 0 to 10" in beyond.output) == (1, True)
    for words in [(), ("--cut", "0:5", "--time", "5")]:
        usage = operator.type("truncate", stream, *words)
        assert (usage.exit_code, "give either --cut" in usage.output) == (2, True)
    kept = operator.says("configure", stream, "--retention", "bytes=1000")
    assert kept == f'{stream}: retention is {{"age_ms": null, "bytes": 1000}}, was null\n'
    wrong = operator.type("configure", stream, "--retention", "bytes=0")
    assert (wrong.exit_code, "which is below 1" in wrong.output) == (2, True)


def test_a_stream_that_is_not_there_is_told_with_the_verb_that_creates_it(
    operator: Operator, stream: str
) -> None:
    refused = operator.type("why", stream)
    assert refused.exit_code == 1
    assert f"to create it: tidegauge create {stream} (in Python Stre" in refused.output


def test_a_stream_is_deleted_only_after_a_yes(
    operator: Operator, api: Api, stream: str
) -> None:
    api.create()
    for answer in ("n\n", ""):
        refused = operator.type("delete", stream, answer=answer)
        assert refused.exit_code == 1
        assert (
            f"This permanently deletes the events, marks and writers of {stream}."
            in refused.stderr
        )
        assert "[y/N]" not in refused.output
        assert "No terminal can answer, so nothing was done; pass --yes" in refused.output
    assert _config(api)["segments"] == 1
    assert operator.says("delete", stream, "--yes") == f"{stream} is deleted\n"
    assert operator.type("delete", stream, "--yes").exit_code == 1
    api.create()
    document = json.loads(operator.says("delete", stream, "--yes", "--json"))
    assert document == {"stream": stream, "deleted": True}


def test_a_script_registers_a_writer_and_lets_it_leave(
    operator: Operator, api: Api, stream: str
) -> None:
    api.create()
    said = operator.says("register", stream, "cron", "--time", NOON_ISO)
    assert said.splitlines() == [
        "cron is active, incarnation 1; watermark 2024-01-01T12:00:00.000Z",
        "it continues at 2024-01-01T12:00:00.000Z: events that it writes from there on are not late",
        "repeat the last time every 20s to avoid being dropped for silence",
    ]
    refused = operator.type("leave", stream, "cron")
    assert "from a shell --incarnation 1" in refused.output
    last = ("--incarnation", "1", "--time", NOON_ISO, "--position", "0:7")
    said = operator.says("leave", stream, "cron", *last)
    assert said == "cron is left; watermark 2024-01-01T12:00:00.000Z\n"


@pytest.mark.parametrize(
    "words",
    [
        ("note-time", "cron", "1704110400"),
        ("leave", "cron", "--time", "1704110400"),
        ("register", "cron", "--time", "1704110400"),
    ],
)
def test_seconds_are_taken_only_by_force_or_in_logical_time(
    operator: Operator, api: Api, stream: str, words: tuple[str, ...]
) -> None:
    api.create(log="embedded")
    api.note("cron", 1, 0)
    verb, *rest = words
    refused = operator.type(verb, stream, *rest)
    assert refused.exit_code == 1
    assert (
        "1704110400 lies in early 1970: are these seconds? Times are milliseconds, such as "
        "1704110400000; --force accepts it as it is"
    ) in refused.output
    operator.says(verb, stream, *rest, "--force")
    api.client.delete(api.path)
    api.create(log="embedded", max_future_skew_ms=None)
    api.note("cron", 1, 0)
    operator.says(verb, stream, *rest)


def test_marks_say_which_of_how_many_they_are(
    operator: Operator, api: Api, stream: str
) -> None:
    api.create(mark_resolution_ms=0)
    for step in range(5):
        api.note("a", NOON + step, step)
    newest = operator.type("marks", stream, "--limit", "2")
    assert newest.stderr.startswith("tidegauge: the newest 2 of 5 marks; --limit shows more")
    assert operator.type("marks", stream).stderr == ""


def test_wait_returns_when_the_hour_is_complete(
    operator: Operator, api: Api, stream: str
) -> None:
    api.create(mark_resolution_ms=0)
    api.note("a", NOON - 1, 1)
    with operator.start("wait", stream, NOON_ISO) as waiting:
        api.note("a", NOON, 2)
        said, complained = waiting.communicate(timeout=PATIENCE_S)
    moment = "2024-01-01T12:00:00.000Z"
    assert said == f"{stream} is complete below {moment}; watermark {moment}\n"
    assert (waiting.returncode, complained) == (0, "")
    api.post("seal", position={"0": 2})
    document = operator.says("wait", stream, str(2**63 - 1), "--timeout", "0", "--json")
    assert json.loads(document)["watermark"] == 2**63 - 1


def test_wait_gives_up_with_the_reason_and_status_1(
    operator: Operator, api: Api, stream: str
) -> None:
    api.create(min_writers=2)
    api.note("a", NOON, 1)
    late = operator.type("wait", stream, NOON_ISO, "--timeout", "200ms")
    assert late.exit_code == 1
    assert late.output == (
        f"tidegauge: {stream} is not complete below 2024-01-01T12:00:00.000Z after 200ms. There "
        "is no mark yet: 1 of min_writers=2 writers have reported; start the other writers, or require "
        f"fewer: tidegauge configure {stream} --min-writers 1 --url {operator.url}\n"
    )


def test_of_several_streams_wait_names_those_that_are_not_complete_and_why_begins_with_the_last(
    operator: Operator, api: Api, stream: str
) -> None:
    names = [stream, f"{stream}-2", f"{stream}-3"]
    operator.says("create", names[2])
    for name, time in zip(names[:2], (NOON, NOON - 1), strict=True):
        operator.says("create", name, "--mark-resolution-ms", "0")
        operator.says("note-time", name, "a", str(time))
    late = operator.type("wait", *names, NOON_ISO, "--timeout", "200ms")
    told = late.output.splitlines()
    assert late.exit_code == 1
    assert [line.split()[1] for line in told] == names[1:]
    assert operator.says("wait", *names[:2], str(NOON - 1), "--timeout", "0").count("\n") == 2
    lines = operator.says("why", *names).splitlines()
    assert [line for line in lines if line.rstrip(":") in names] == [
        f"{n}:" for n in names[::-1]
    ]
    listed = json.loads(operator.says("why", *names, "--json"))
    assert [one["stream"] for one in listed] == names[::-1]


def test_wait_outlasts_an_outage_and_ends_at_ctrl_c(server: ServerProcess) -> None:
    operator = Operator(server.url)
    with Api(server.url) as api:
        api.create()
        with operator.start("wait", api.name, NOON_ISO) as waiting:
            server.wait_for_waiting(1)
            server.kill()
            assert waiting.stderr is not None
            assert "for up to 60 s: " in waiting.stderr.readline()
            server.start()
            api.note("a", NOON, 1)
            assert waiting.wait(timeout=PATIENCE_S) == 0
        with operator.start("wait", api.name, str(NOON + 1)) as waiting:
            server.wait_for_waiting(1)
            waiting.send_signal(signal.SIGINT)
            said, complained = waiting.communicate(timeout=PATIENCE_S)
            assert (waiting.returncode, said, complained) == (130, "", "")
