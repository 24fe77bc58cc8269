"""What is typed: the help of each verb, its options, and a cure for each word that cannot be read."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.testing import CliRunner

from tidegauge.wire.streams import ChangeStream, CreateStream
from tidegauge_cli.verbs import app, whole_command


def _commands(command: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(command, TyperGroup):
        for name, part in command.commands.items():
            yield from _commands(part, *path, name)
    else:
        yield path, command


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
    created, changed = (
        {option.name for option in verbs[verb,].params} for verb in ("create", "configure")
    )
    assert created >= CreateStream.model_fields.keys()
    fixed = {"segments", "log"}
    assert changed >= ChangeStream.model_fields.keys() - fixed
    assert not changed & fixed


OBSERVE = "observe kafka a/b --bootstrap 127.0.0.1:1"
REFUSED = """
why orders → 'orders' names no stream; write scope/stream
note-time a/b cron 12:00 → '12:00' is not an event time
note-time a/b a:b 1 → 'a:b' is not a valid name
note-time a/b cron 1 --position 7 → '7' is not a position
note-time a/b cron 1 --position 7:1,7:2 → segment 7 is named twice
note-time a/b cron 1 --incarnation 0 → '0' is not a whole number of 1 or more
writers a/b --state gone → '--state': 'gone' is not one of joining,
window billing a/b → 'billing' names no reader group; write scope/group
marks a/b --limit 0 → '0' is not a whole number from 1 to 1000
marks a/b --since noon → 'noon' is not an event time; send integer
marks a/b --after -1 → '-1' is not a whole number of 0 or more
token new x --grant a:read --days 9999999 → '9999999' is not a whole number from 1
create a/b --segments two → 'two' cannot be read; write a whole number, such as 4
create a/b --segments 0 → '0' is below 1; write a whole number
create a/b --min-writers null → 'null' cannot be read; write a whole number
create a/b --hold-limit-ms 7x → '7x' cannot be read; write a length of time, such as 90s
create a/b --hold-limit-ms 99999d → '99999d' is above 315360000000; write a length of
create a/b --retention 7 → '7' cannot be read; write an age, a size or both, such as 7d
create a/b --retention bytes=0 → has bytes, which is below 1; write an age, a size or
create a/b --scaling 1000 → '1000' cannot be read; write fixed, or a target for each
create a/b --scaling load=3 → has load, which is not known; write fixed, or a target
create a/b --scaling window_ms=5s → not taken: give one target, events_per_s or bytes_per
create a/b --log kafka → '--log': 'kafka' cannot be read; write embedded or external
configure a/b → name a setting, such as --min-writers 2
scale a/b → give one of --split
scale a/b --split 5 --merge 5,6 → give one of --split
scale a/b --seal 5 → give one of --split
truncate a/b --yes → give either --cut
truncate a/b --cut 0:5 --time 5 → give either --cut
table t --catalog lake → is not NAME=VALUE
table t --timeout 5s → needs --wait TIME
table t --at 1 --wait 1 → give one of them
intervals t --state FILE → goes with a command after --
intervals t -- run → goes with a command after --
intervals t --since [1] --state FILE -- run → whose file has the cursor
intervals t --state FILE -- run {begin} → {begin} is not a placeholder; use {start}, {end}, {version}, or put
intervals t --state FILE -- run x{cut} → {cut} is not a placeholder
intervals t --state FILE -- run '{ start }' → { start } is not a placeholder
intervals t --state FILE -- run {start:%H} → {start:%H} is not a placeholder
intervals t --state FILE -- run {end!r} → {end!r} is not a placeholder
OBSERVE --by user → 'user' distinguishes no writers; write partition, key or
OBSERVE --event-time json:at → 'json:at' is not a place of a time; write timestamp,
OBSERVE --strategy lag:5 → '5' is not a length of time; write a whole number
OBSERVE --idle soon → 'soon' is not a length of time; write a whole number
OBSERVE --promises json:a → 'json:a' is not a place of promises; write
OBSERVE --promises ticdc --by key --strategy lag:5m --idle 2m → --by, --strategy, --idle cannot be used with --promises: each
OBSERVE --promises ticdc --by partition → --by cannot be used with --promises: each partition notes
OBSERVE --from middle → 'middle' is not one of beginning, end
OBSERVE --kafka acks → a setting of --kafka has no '='; write NAME=VALUE
OBSERVE --kafka-config /nowhere → /nowhere cannot be read: No such file
"""
"""What is typed, and what is said of it."""


@pytest.mark.parametrize("line", REFUSED.strip().splitlines())
def test_a_wrong_argument_is_named_with_the_cure(line: str) -> None:
    words, problem = line.replace("OBSERVE", OBSERVE).split(" → ")
    refused = CliRunner().invoke(app, shlex.split(words), env={"COLUMNS": "200"})
    assert refused.exit_code == 2
    assert problem in " ".join(refused.output.replace("│", " ").split())
