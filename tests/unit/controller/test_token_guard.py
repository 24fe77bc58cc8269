"""Who calls, by the token that is shown, while the file of tokens changes."""

from datetime import timedelta
from pathlib import Path

import pytest

from controller.access.callers import Caller
from controller.access.guard import Guard
from controller.access.tokens import (
    append_token,
    new_token,
    parse_grants,
)
from tidegauge.errors import UnauthenticatedError

PATH = "/v1/streams"


def _add(file: Path, name: str, *grants: str, lasts: timedelta | None = None) -> str:
    made = new_token(name, parse_grants(grants), lasts=lasts)
    append_token(file, made.stored)
    return made.text


def _identify(guard: Guard, token: str, scheme: str = "Bearer") -> Caller:
    headers = [(b"host", b"here"), (b"authorization", f"{scheme} {token}".encode())]
    return guard.identify(PATH, headers)


def _refusal(guard: Guard, token: str, scheme: str = "Bearer") -> str:
    with pytest.raises(UnauthenticatedError) as refused:
        _identify(guard, token, scheme)
    return refused.value.reason


def _look_twice(guard: Guard) -> None:
    """Let a change be seen, and found to stand still."""
    guard.check()
    guard.check()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tokens.toml"


def test_the_scheme_may_be_written_in_any_case_and_another_one_shows_nothing(
    file: Path,
) -> None:
    token = _add(file, "gateway", "flights:read")
    guard = Guard(file)
    assert _identify(guard, token, "bearer").name == "gateway"
    assert _identify(guard, token, "BEARER ").name == "gateway"
    assert _refusal(guard, token, "Basic") == "missing"
    assert _refusal(guard, "") == "unknown"
    assert _refusal(guard, token + "x") == "unknown"
    assert _refusal(guard, token[:-1]) == "unknown"


def test_a_token_expires_also_after_it_was_seen(file: Path) -> None:
    now_s = 0.0
    token = _add(file, "visitor", "flights:read", lasts=timedelta(days=1))
    guard = Guard(file, clock=lambda: now_s)
    visitor = _identify(guard, token)
    end = visitor.expires_s
    assert end is not None
    now_s = end - 1
    assert _identify(guard, token).name == "visitor"
    now_s = end
    assert _refusal(guard, token) == "expired"


def test_a_token_is_in_force_as_long_as_the_file_has_it(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = _add(file, "first", "flights:read")
    guard = Guard(file)
    second = _add(file, "second", "flights:read")
    assert _refusal(guard, second) == "unknown"
    _look_twice(guard)
    assert _identify(guard, second).name == "second"
    assert _identify(guard, first).name == "first"
    file.write_text("")
    _look_twice(guard)
    assert _refusal(guard, first) == "unknown"
    assert _refusal(guard, second) == "unknown"
    assert [(one.levelname, one.getMessage()) for one in caplog.records] == [
        ("WARNING", f"0 tokens read from {file}")
    ]


def test_a_header_seen_while_the_file_is_read_again_is_not_remembered(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = _add(file, "gone", "flights:read")
    guard = Guard(file)
    file.write_text("")

    def read_while_it_is_shown(_path: Path) -> dict[bytes, Caller]:
        assert _identify(guard, token).name == "gone"
        return {}

    monkeypatch.setattr("controller.access.guard.read_tokens", read_while_it_is_shown)
    _look_twice(guard)
    assert _refusal(guard, token) == "unknown"


def test_what_is_remembered_of_headers_is_bounded(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.access.guard._MOST_SEEN", 2)
    token = _add(file, "gateway", "flights:read")
    guard = Guard(file)
    for spaces in range(1, 8):
        assert _identify(guard, " " * spaces + token).name == "gateway"
        assert _refusal(guard, f"{token}{spaces}") == "unknown"
    assert len(guard._tokens._seen) <= 2


@pytest.mark.parametrize("broken", ["[[token]]\nname =", "[[token]]\nname = 'x'\n", "\xff"])
def test_a_file_that_cannot_be_read_leaves_the_former_tokens_in_force(
    file: Path, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    token = _add(file, "gateway", "flights:read")
    guard = Guard(file)
    file.write_bytes(broken.encode("latin-1"))
    _look_twice(guard)
    _look_twice(guard)
    assert _identify(guard, token).name == "gateway"
    assert [one.levelname for one in caplog.records] == ["ERROR"]
    assert f"tokens in {file}" in caplog.text
    file.unlink()
    _look_twice(guard)
    assert _identify(guard, token).name == "gateway"
