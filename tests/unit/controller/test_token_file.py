"""The file of tokens: what it says, what it refuses, and what never is in it."""

import os
import stat
import subprocess
import sys
from datetime import timedelta
from errno import EACCES
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from controller.access.callers import Role
from controller.access.tokens import (
    TokenFileError,
    append_token,
    new_token,
    parse_grants,
    read_tokens,
)
from tidegauge_cli.verbs import app

HASH = "ab" * 32


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tokens.toml"


def _type(*words: str) -> Result:
    return CliRunner().invoke(app, ["token", "new", *words], env={"COLUMNS": "120"})


def test_a_new_token_is_printed_once_and_only_its_hash_is_kept(file: Path) -> None:
    made = _type("gateway", "--grant", "flights:read,write", "--tokens", str(file))
    token = made.stdout.strip()
    assert token.startswith("tg_")
    assert len(token) == 46
    assert token not in made.stderr
    assert token not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    (caller,) = read_tokens(file).values()
    assert caller.name == "gateway"
    assert caller.grants == {"flights": {Role.READ, Role.WRITE}}
    assert caller.expires_s is None


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_a_token_that_cannot_be_shown_is_told_with_the_cure(file: Path) -> None:
    command = [sys.executable, "-m", "tidegauge_cli", "token", "new", "gateway"]
    command += ["--grant", "flights:read", "--tokens", str(file)]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command, check=False, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "tidegauge token new: cannot print the token (No space left on device): delete 'gateway' "
        "from the file, and create another"
    )
    assert "Traceback" not in done.stderr


def test_a_file_keeps_what_people_wrote_into_it(file: Path) -> None:
    file.write_text("# who we let in\n")
    _type("a", "--grant", "flights:read", "--grant", "*:operate", "--tokens", str(file))
    _type("b", "--grant", "flights:read", "--days", "30", "--tokens", str(file))
    assert file.read_text().startswith("# who we let in\n")
    a, b = read_tokens(file).values()
    assert a.name == "a"
    assert a.roles("flights") == {Role.READ, Role.OPERATE}
    assert b.expires_s is not None


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("a", "--grant", "flights"), "is not a grant; write SCOPE:ROLES"),
        (("a", "--grant", "flights:admin"), "with some of read, observe, write, operate"),
        (("a", "--grant", "fli ghts:read"), "is not a valid name"),
        (("a b", "--grant", "flights:read"), "is not a valid name"),
        (("taken", "--grant", "flights:read"), "there is a token 'taken' already"),
    ],
)
def test_a_token_that_cannot_be_is_refused_with_the_cure(
    file: Path, words: tuple[str, ...], problem: str
) -> None:
    append_token(file, new_token("taken", {"flights": {Role.READ}}, lasts=None).stored)
    before = file.read_text()
    refused = _type(*words, "--tokens", str(file))
    assert refused.exit_code == 1
    assert problem in refused.output
    assert file.read_text() == before


def test_a_file_that_would_be_unreadable_with_a_token_more_stays_as_it_is(file: Path) -> None:
    file.write_text("token = []\n")
    refused = _type("a", "--grant", "flights:read", "--tokens", str(file))
    assert refused.exit_code == 1
    assert "nothing can be added while it does not list tokens as [[token]]" in refused.output
    assert file.read_text() == "token = []\n"


def test_what_is_no_regular_file_is_not_waited_for(file: Path) -> None:
    os.mkfifo(file)
    with pytest.raises(TokenFileError, match="this is not a regular file"):
        read_tokens(file)


def test_a_file_that_may_not_even_be_looked_at_is_told(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, **_: bool) -> None:
        raise PermissionError(EACCES, "Permission denied", f"{path}")

    monkeypatch.setattr(Path, "stat", refuse)
    with pytest.raises(TokenFileError, match=r"tokens\.toml: Permission denied"):
        read_tokens(file)
    with pytest.raises(TokenFileError, match=r"tokens\.toml: Permission denied"):
        append_token(file, new_token("a", {"flights": {Role.READ}}, lasts=None).stored)


_ONE = f"[[token]]\nname='a'\nsha256='{HASH}'\ngrants={{a=['read']}}\n"
_NAMED = f"[[token]]\nname='a'\nsha256='{HASH}'"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (_NAMED, "token.0.grants: Field required"),
        (f"{_NAMED}\ngrants={{}}", "token.0.grants"),
        (f"{_NAMED}\ngrants={{a=[]}}", "token.0.grants"),
        (f"{_NAMED}\ngrants={{a=['admin']}}", "token.0.grants"),
        (f"{_NAMED}\ngrants={{'-'=['read']}}", "token.0.grants"),
        (f"{_NAMED}\ngrants={{'TOKEN '=['read']}}", "token.0.grants.tg_… "),
        ("[[token]]\nname='a'\nsha256='TOKEN'\ngrants={a=['read']}", "token.0.sha256"),
        (f"[[token]]\nsha256='{HASH}'\ngrants={{a=['read']}}\ntoken='TOKEN'", "token.0"),
        (f"[[token]]\nname='TOKEN'\nsha256='{HASH}'\ngrants={{a=['read']}}\n" * 2, "'tg_…'"),
        (_ONE + _ONE.replace("'a'", "'b'", 1), "token 'a' is there twice"),
        (_ONE + _ONE.replace(HASH, HASH[::-1]), "token 'a' is there twice"),
        ("token = 'TOKEN'", "token: Input should be a valid list"),
        ("TOKEN", "Expected '=' after a key"),
        ("[TOKEN]\n[TOKEN]", "Cannot declare ('tg_…',) twice"),
        ("[token.TOKEN]\n[token.TOKEN]", "Cannot declare ('token', 'tg_…') twice"),
        ("a = { TOKEN = 1, TOKEN = 2 }", "Duplicate inline table key 'tg_…'"),
        ("[TOKEN]", "tg_…: Extra inputs are not permitted"),
        (f"token = {'[' * 10_000}", "maximum recursion depth exceeded"),
    ],
)
def test_a_file_that_says_what_cannot_be_is_refused_without_showing_a_token_in_it(
    file: Path, text: str, problem: str
) -> None:
    token = new_token("pasted", {"a": {Role.READ}}, lasts=None).text
    file.write_text(text.replace("TOKEN", token))
    with pytest.raises(TokenFileError) as refused:
        read_tokens(file)
    assert problem in refused.value.reason
    assert token[3:] not in f"{refused.value} {refused.value.reason} {refused.value!r}"


def test_a_token_in_place_of_a_path_does_not_come_to_light() -> None:
    token = new_token("pasted", {"a": {Role.READ}}, lasts=None).text
    with pytest.raises(TokenFileError, match=r"^tokens in tg_…: No such file or directory$"):
        read_tokens(Path(token))


def test_a_token_shows_in_no_repr() -> None:
    made = new_token("gateway", {"flights": {Role.READ}}, lasts=timedelta(days=1))
    assert made.text not in f"{made!r} {made}"
    assert repr(made) == "NewToken('gateway')"


def test_grants_of_one_scope_add_up() -> None:
    grants = parse_grants(["a:read", "b:write", "a:operate"])
    assert grants == {"a": {Role.READ, Role.OPERATE}, "b": {Role.WRITE}}
