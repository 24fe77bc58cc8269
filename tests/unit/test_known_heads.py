"""Heads that came before are known as long as they come again, and only so many of them."""

import pytest
from starlette.types import Scope

from controller import protocol
from controller.protocol import KnownHeads, Reply


class Call:
    is_current = True

    def take(self, body: bytes, reply: Reply) -> None:
        reply.succeed(body)


class App:
    def recall(self, _scope: Scope) -> Call:
        return Call()


def test_of_many_heads_those_that_come_again_stay_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(protocol, "_A_GENERATION", 10)
    heads = KnownHeads(App())
    for number in range(100):
        heads.learn(b"once %d" % number, 0, {})
        if number == 0:
            heads.learn(b"again", 0, {})
        assert heads.find(b"again", 0) is not None
    known = [number for number in range(100) if heads.find(b"once %d" % number, 0) is not None]
    assert known[0] >= 90
    assert len(known) < 20


def test_a_head_that_means_something_else_now_is_forgotten() -> None:
    heads = KnownHeads(App())
    heads.learn(b"head", 3, {})
    call = heads.find(b"head", 3)
    assert isinstance(call, Call)
    call.is_current = False
    assert heads.find(b"head", 3) is None
    call.is_current = True
    assert heads.find(b"head", 3) is None
    assert heads.find(b"head", 4) is None
