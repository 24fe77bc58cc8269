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


def test_a_rolling_restart_makes_the_watermark_lag_by_one_start(lasting: Service) -> None:
    shop = lasting.open()
    names = ["api-1", "api-2", "api-3", "api-4"]
    shop.many({"writer": name, "time": NOON, "position": {"0": 1}} for name in names)
    incarnations: dict[str, int | None] = dict.fromkeys(names)
    for step, name in enumerate(names, start=1):
        before, now = NOON + (step - 1) * MINUTE, NOON + step * MINUTE
        registered = shop.says(name, "register")
        assert (registered["time"], registered["state"]) == (before, "joining")
        incarnations[name] = registered["incarnation"]
        if step == 2:
            lasting.lose(shop)
        assert (_of(shop, name)["stand"], _of(shop, name)["stand_by"]) == (before, "noted")
        for other in names:
            if other != name:
                shop.notes(other, now, step, incarnation=incarnations[other])
        assert shop.watermark == before
        shop.notes(name, now, step, incarnation=incarnations[name])
        assert shop.watermark == now


def test_what_a_registration_was_told_holds_and_what_the_next_is_told_is_the_same(
    lasting: Service,
) -> None:
    shop = lasting.open()
    shop.many({"writer": name, "time": NOON, "position": {"0": 1}} for name in ("a", "b"))
    assert shop.says("first", "register")["time"] == NOON
    for name in ("a", "b"):
        shop.notes(name, NOON + 3 * MINUTE, 2)
    assert shop.says("second", "register")["time"] == NOON + 3 * MINUTE
    lasting.lose(shop)
    assert shop.says("third", "register")["time"] == NOON + 3 * MINUTE
    told = [(one["writer"], one["stand"], one["stand_by"]) for one in shop.writers()]
    assert told == [
        ("a", NOON + 3 * MINUTE, "noted"),
        ("b", NOON + 3 * MINUTE, "noted"),
        ("first", NOON, "told"),
        ("second", NOON + 3 * MINUTE, "told"),
        ("third", NOON + 3 * MINUTE, "told"),
    ]
    for name in ("a", "b"):
        shop.notes(name, NOON + 5 * MINUTE, 3)
    assert shop.watermark == NOON
    shop.notes("first", NOON + 5 * MINUTE, 1, incarnation=1)
    assert shop.watermark == NOON + 3 * MINUTE
    for name in ("second", "third"):
        shop.notes(name, NOON + 4 * MINUTE, 1, incarnation=1)
    assert shop.watermark == NOON + 4 * MINUTE


@pytest.mark.only_on("sqlite")
def test_a_stall_of_the_whole_pipeline_loses_no_rows(lasting: Service) -> None:
    shop = lasting.open(aggregation_timeout_ms=1_000, hold_limit_ms=1_000)
    _report(shop, a=NOON, b=NOON)
    _report(shop, a=NOON + 2 * MINUTE, b=NOON + MINUTE)
    lasting.lose(shop)
    wait_until(lambda: shop.explanation()["stood_ms"] > 2_000)
    wait_until(lambda: _of(shop, "b")["silent_for_ms"] == 500)
    assert shop.states() == {"a": "active", "b": "behind"}
    _report(shop, a=NOON + 4 * MINUTE, b=NOON + 3 * MINUTE)
    assert shop.mark == (NOON + 3 * MINUTE, {"0": 1})
    assert shop.states() == {"a": "active", "b": "behind"}


@pytest.mark.only_on("sqlite")
def test_a_quiet_night_drops_nobody_when_one_is_up_early(lasting: Service) -> None:
    shop = lasting.open(aggregation_timeout_ms=1_000, hold_limit_ms=1_000)
    _report(shop, a=NOON, b=NOON, c=NOON)
    lasting.lose(shop)
    wait_until(lambda: shop.explanation()["stood_ms"] > 2_000)
    assert {one["silent_for_ms"] for one in shop.writers()} == {None}
    assert shop.notes("a", NOON + 8 * HOUR, 2) == {"watermark": NOON, "state": "active"}
    wait_until(lambda: _of(shop, "b")["silent_for_ms"] == 500)
    assert shop.states() == {"a": "active", "b": "behind", "c": "behind"}
    _report(shop, b=NOON + 7 * HOUR, c=NOON + 6 * HOUR)
    assert shop.mark == (NOON + 6 * HOUR, {"0": 2})
    assert shop.states() == {"a": "active", "b": "active", "c": "behind"}


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


def test_a_device_that_lags_is_waited_for_again_at_its_first_report_after_an_outage(
    lasting: Service,
) -> None:
    shop = lasting.open(aggregation_timeout_ms=500)
    steady = Steady(shop)
    _report(shop, steady=NOON, device=NOON)
    _speak_until(steady.speak, lambda: shop.states()["device"] == "expired")
    lasting.lose(shop)
    assert _of(shop, "device")["grace"]
    stood = shop.watermark
    assert stood == steady.time > NOON + 5 * MINUTE
    lagging = shop.notes("device", stood - 5_000, 2)
    assert lagging == {"watermark": stood, "state": "active"}
    steady.speak()
    assert (shop.watermark, shop.states()["device"]) == (stood, "behind")
    shop.notes("device", steady.time - 5_000, 3)
    assert shop.watermark == steady.time - 5_000


def test_who_uploads_a_backlog_is_let_in_when_it_is_near(lasting: Service) -> None:
    shop = lasting.open(aggregation_timeout_ms=1_000)
    _report(shop, steady=NOON, device=NOON)
    shop.says("device", "leave")
    shop.notes("steady", NOON + 24 * HOUR, 2)
    uploaded = count(NOON + 1_000, 1_000)

    def upload() -> None:
        shop.notes("device", next(uploaded), 2)

    _speak_until(upload, lambda: _of(shop, "device")["catch_up_ms"] is not None)
    lasting.lose(shop)
    upload()
    assert shop.states()["device"] == "left"
    near = NOON + 24 * HOUR - 1_000
    _speak_until(
        lambda: shop.notes("device", near, 2), lambda: shop.states()["device"] == "active"
    )
    shop.notes("steady", NOON + 25 * HOUR, 3)
    assert shop.watermark == NOON + 24 * HOUR
    shop.notes("device", NOON + 25 * HOUR, 3)
    assert shop.watermark == NOON + 25 * HOUR


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
