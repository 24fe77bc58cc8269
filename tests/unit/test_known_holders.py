"""Holders that were looked up are good until there is news of any."""

from types import SimpleNamespace
from typing import Any

import pytest

from controller.http.forwarding.one import KnownHolders
from controller.http.forwarding.peers import Peer
from controller.schema import reader_groups, streams
from tidegauge.names import StreamName

NAME = StreamName("tests", "one")
PEER = Peer(7, "http://seven")


@pytest.fixture
def membership() -> Any:
    return SimpleNamespace(notices=3)


@pytest.fixture
def known(membership: Any) -> KnownHolders:
    holders = KnownHolders(membership)
    holders.remember(streams, NAME, PEER, seen=3)
    return holders


def test_a_holder_is_known_once_it_was_looked_up(known: KnownHolders) -> None:
    assert known.find(streams, NAME) == PEER
    assert known.find(reader_groups, NAME) is None


def test_news_make_all_of_them_unknown(known: KnownHolders, membership: Any) -> None:
    membership.notices += 1
    assert known.find(streams, NAME) is None


def test_what_was_looked_up_before_there_was_news_is_not_remembered(
    known: KnownHolders, membership: Any
) -> None:
    membership.notices += 1
    assert known.find(streams, NAME) is None
    known.remember(streams, NAME, PEER, seen=3)
    assert known.find(streams, NAME) is None


def test_what_is_not_there_any_more_is_dropped(known: KnownHolders) -> None:
    known.drop(streams, NAME)
    assert known.find(streams, NAME) is None
