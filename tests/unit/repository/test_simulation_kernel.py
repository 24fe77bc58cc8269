"""The event loop of simulations, the private parts of asyncio that it needs, and clocks."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from controller.http import timing
from tests.simulation import clocks
from tests.simulation.choices import Choices
from tests.simulation.kernel import Node, SimulatedLoop

Play = Callable[[SimulatedLoop, list[str]], Coroutine[Any, Any, None]]


def play(work: Play) -> list[str]:
    """Run something in the world of a loop; what it notes is returned."""
    noted: list[str] = []
    loop = SimulatedLoop(Choices("1"), lambda *_: None)
    try:
        loop.run_until_complete(loop.world.spawn(work(loop, noted)))
        return list(noted)
    finally:
        loop.end()


def test_a_killed_process_runs_nothing_more_not_even_what_is_left_to_end() -> None:
    async def work(loop: SimulatedLoop, noted: list[str]) -> None:
        async def live() -> None:
            try:
                noted.append("lives")
                await asyncio.sleep(1)
                noted.append("lives on")
            finally:
                noted.append("ends")

        node = Node("process", loop)
        node.spawn(live())
        await asyncio.sleep(0.5)
        node.kill()
        await asyncio.sleep(5)

    assert play(work) == ["lives"]


def test_a_paused_process_goes_on_with_what_arrived_meanwhile() -> None:
    async def work(loop: SimulatedLoop, noted: list[str]) -> None:
        async def live() -> None:
            await asyncio.sleep(1)
            noted.append(f"wakes at {loop.time():.1f}")

        node = Node("process", loop)
        live_on = node.spawn(live())
        await asyncio.sleep(0.5)
        node.pause_for(3)
        await live_on

    assert play(work) == ["wakes at 3.5"]


def test_clocks_are_lent_to_those_who_bound_them_and_given_back() -> None:
    def bound() -> list[object]:
        return [time.monotonic, time.perf_counter_ns, time.sleep, vars(timing)["perf_counter"]]

    real = bound()
    with clocks.lent(time.sleep):
        assert not set(bound()) & set(real)
        assert time.monotonic() == clocks.monotonic_s()
    assert bound() == real


def test_only_who_borrows_the_clocks_sleeps_by_them() -> None:
    slept = list[float]()
    with ThreadPoolExecutor(1) as other, clocks.lent(slept.append):
        other.submit(time.sleep, 0.001).result()
        assert slept == []
        time.sleep(3)
    assert slept == [3]
