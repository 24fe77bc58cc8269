"""Heads that came before are known as long as they come again, and only so many of them."""

import pytest
from starlette.types import Scope

from controller.serving import protocol
from controller.serving.protocol import KnownHeads, Reply


class Call:
    is_current = True

    def take(self, body: bytes, reply: Reply) -> None:
        reply.succeed(body)


class App:
    def recall(self, _scope: Scope) -> Call:
        return Call()


def _head(name: str, length: str = "0") -> bytes:
    return f"POST /{name} HTTP/1.1\r\nhost: here\r\ncontent-length: {length}".encode()


def test_of_many_heads_those_that_come_again_stay_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(protocol, "_A_GENERATION", 10)
    heads = KnownHeads(App(), longest_body=100)
    for number in range(100):
        heads.learn(_head(f"once-{number}"), 0, {})
        if number == 0:
            heads.learn(_head("again"), 0, {})
        assert heads.find(_head("again"), 0) is not None
    known = [number for number in range(100) if heads.find(_head(f"once-{number}"), 0)]
    assert known[0] >= 90
    assert len(known) < 20


def test_a_head_that_means_something_else_now_is_forgotten() -> None:
    heads = KnownHeads(App(), longest_body=100)
    heads.learn(_head("one", "3"), 3, {})
    call = heads.find(_head("one", "3"), 3)
    assert isinstance(call, Call)
    call.is_current = False
    assert heads.find(_head("one", "3"), 3) is None
    call.is_current = True
    assert heads.find(_head("one", "3"), 3) is None


@pytest.mark.parametrize("length", ["0", "3", "12", "0012", "100"])
def test_a_head_is_known_with_any_length_up_to_the_longest(length: str) -> None:
    heads = KnownHeads(App(), longest_body=100)
    heads.learn(_head("one", "7"), 7, {})
    assert heads.find(_head("one", length), int(length)) is not None


@pytest.mark.parametrize("length", ["101", "1_2", "+12", "1000000000"])
def test_a_head_is_not_known_with_a_longer_body_or_an_odd_length(length: str) -> None:
    heads = KnownHeads(App(), longest_body=100)
    heads.learn(_head("one", "7"), 7, {})
    assert heads.find(_head("one", length), int(length)) is None


def test_a_head_is_not_known_with_a_body_of_another_length_than_it_announces() -> None:
    heads = KnownHeads(App(), longest_body=100)
    heads.learn(_head("one", "7"), 7, {})
    assert heads.find(_head("one", "7"), 6) is None
    assert heads.find(_head("one", "7"), 8) is None
