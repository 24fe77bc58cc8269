"""Who may hold the watermark, and how long, over the loss of the service that counts it.

On SQLite it is killed and started again, on PostgreSQL another controller takes over. Clocks are
read before and after: nobody gets a fresh start by it, and nobody loses one. Bounds are such that
slow machines cannot break them: a gap between reports counts at most half of a setting.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any

import pytest

from tests.conftest import NewServer
from tests.integration.controllers import LEASE_MS, Controllers, controllers
from tests.integration.shop import MINUTE, NOON, Shop
from tests.patience import wait_until
from tests.server import ServerProcess

HOUR = 60 * MINUTE
SHOWN_MS = 300
"""A clock has gone so far, at least, when the service is lost."""


class Service:
    """A service that can be lost."""

    def __init__(self, servers: list[ServerProcess], shared: Controllers | None) -> None:
        self._servers = servers
        self._shared = shared
        self._shops = ExitStack()

    def open(self, **settings: object) -> Shop:
        """Make a stream."""
        shop = self._shops.enter_context(Shop(self._servers[0].url, **settings))
        self._settle()
        return shop

    def close(self) -> None:
        """Close all connections."""
        self._shops.close()

    def lose(self, shop: Shop) -> None:
        """Kill whoever counts a stream, and wait until somebody else does."""
        lost = self._servers[0] if self._shared is None else self._shared.holder_of(shop.name)
        lost.kill()
        if self._shared is None:
            lost.start()
        else:
            other = next(one for one in self._servers if one is not lost)
            shop.client.base_url = other.url
            wait_until(lambda: shop.client.get(f"{shop.path}/writers").is_success)
            lost.start()
            self._settle()

    def _settle(self) -> None:
        """Wait until no stream moves from one controller to the other."""
        if self._shared is not None:
            wait_until(self._is_balanced)

    def _is_balanced(self) -> bool:
        assert self._shared is not None
        *counts, free = self._shared.held()
        return len(counts) == 2 and max(counts) - min(counts) <= 1 and free == 0


@pytest.fixture(scope="module")
def lasting(
    database_kind: str,
    new_server: NewServer,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Service]:
    """One for all tests."""
    with ExitStack() as stack:
        if database_kind == "sqlite":
            service = Service([stack.enter_context(new_server())], None)
        else:
            cluster, place = request.getfixturevalue("cluster"), tmp_path_factory.mktemp("two")
            two = stack.enter_context(controllers(cluster, place, 2, lease_ms=LEASE_MS))
            service = Service(two.servers, two)
        stack.callback(service.close)
        yield service


class Steady:
    """A writer that goes on, a minute of event time with every word."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop
        self._times = count(NOON + MINUTE, MINUTE)
        self.time = NOON

    def speak(self, *others: dict[str, object]) -> None:
        """Note the next time, at one moment with what others report."""
        self.time = next(self._times)
        report = {"writer": "steady", "time": self.time, "position": {"0": 1}}
        self._shop.many([report, *others])


def _of(shop: Shop, writer: str) -> dict[str, Any]:
    return next(one for one in shop.writers() if one["writer"] == writer)


def _run(shop: Shop, writer: str, clock: str, speak: Callable[[], object]) -> int:
    """Speak until a clock has gone far; tells what a look found at least that is stored."""
    shown_ms: int | None = None

    def is_far() -> bool:
        nonlocal shown_ms
        shown_ms = _of(shop, writer)[clock]
        speak()
        return shown_ms is not None and shown_ms >= SHOWN_MS

    wait_until(is_far)
    assert shown_ms is not None
    return shown_ms


def _speak_until(speak: Callable[[], object], condition: Callable[[], bool]) -> None:
    def spoken() -> bool:
        speak()
        return condition()

    wait_until(spoken)


def test_all_that_vanish_together_go_together_after_one_timeout(lasting: Service) -> None:
    shop = lasting.open(aggregation_timeout_ms=2_000, hold_limit_ms=None, min_writers=21)
    steady, pods = Steady(shop), [f"pod-{number:02}" for number in range(20)]
    steady.speak()
    shop.many(
        {"writer": pod, "time": NOON + 10 * number, "position": {"0": 1}}
        for number, pod in enumerate(pods)
    )
    shown_ms = _run(shop, "pod-00", "silent_for_ms", steady.speak)
    lasting.lose(shop)
    found = [one for one in shop.writers() if one["writer"] in pods]
    assert [one["state"] for one in found] == ["behind"] + 19 * ["active"]
    assert {one["clock"] for one in found} == {"silence"}
    assert min(one["silent_for_ms"] for one in found) >= shown_ms

    def all_went() -> bool:
        states = shop.states()
        (went,) = {states[pod] == "expired" for pod in pods}
        return went

    _speak_until(steady.speak, all_went)
    assert shop.watermark == steady.time


def _report(shop: Shop, **times: int) -> None:
    """Have writers report at one moment."""
    shop.many(
        {"writer": name, "time": time, "position": {"0": 1}} for name, time in times.items()
    )


def test_who_beats_is_waited_for_beyond_the_timeout_up_to_the_limit(lasting: Service) -> None:
    shop = lasting.open(aggregation_timeout_ms=250, hold_limit_ms=2_000)
    steady, beat = Steady(shop), {"writer": "slow", "time": NOON, "position": {"0": 1}}
    _report(shop, steady=NOON, slow=NOON)

    def speak() -> None:
        steady.speak(beat)

    shown_ms = _run(shop, "slow", "standing_for_ms", speak)
    lasting.lose(shop)
    slow = _of(shop, "slow")
    assert slow["state"] == "behind"
    assert slow["standing_for_ms"] >= shown_ms > 250 > slow["silent_for_ms"]
    _speak_until(speak, lambda: shop.states()["slow"] == "expired")
    assert shop.watermark == steady.time


def test_a_process_that_registers_and_crashes_holds_the_others_once(lasting: Service) -> None:
    shop = lasting.open(aggregation_timeout_ms=2_000, hold_limit_ms=None)
    steady = Steady(shop)
    steady.speak()
    assert shop.says("looping", "register")["state"] == "joining"

    def speak() -> None:
        shop.says("looping", "register")
        steady.speak()

    shown_ms = _run(shop, "looping", "silent_for_ms", speak)
    lasting.lose(shop)
    registered = shop.says("looping", "register")
    assert (registered["time"], registered["state"]) == (NOON + MINUTE, "joining")
    looping = _of(shop, "looping")
    assert (looping["state"], looping["grace"]) == ("joining", False)
    assert looping["silent_for_ms"] >= shown_ms
    _speak_until(speak, lambda: shop.states()["looping"] == "expired")
    lasting.lose(shop)
    registered = shop.says("looping", "register")
    assert (registered["time"], registered["state"]) == (None, "expired")
    steady.speak()
    assert shop.watermark == steady.time
    above = steady.time + MINUTE
    number = registered["incarnation"]
    assert shop.notes("looping", above, 1, incarnation=number)["state"] == "active"
