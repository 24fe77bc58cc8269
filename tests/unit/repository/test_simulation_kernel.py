"""The event loop of simulations, the private parts of asyncio that it needs, and clocks."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from controller.http import timing
from tests.simulation import clocks
from tests.simulation.choices import Choices
from tests.simulation.kernel import Node, SimulatedLoop

Play = Callable[[SimulatedLoop, list[str]], Coroutine[Any, Any, None]]


def play(work: Play, *, seed: int = 1) -> list[str]:
    """Run something in the world of a loop; what it notes is returned."""
    noted: list[str] = []
    with _loop(seed) as loop:
        loop.run_until_complete(loop.world.spawn(work(loop, noted)))
        return list(noted)


@contextmanager
def _loop(seed: int) -> Iterator[SimulatedLoop]:
    loop = SimulatedLoop(Choices(str(seed)), lambda *_: None)
    try:
        yield loop
    finally:
        loop.end()


def test_time_passes_only_when_nobody_has_anything_to_do() -> None:
    async def work(loop: SimulatedLoop, noted: list[str]) -> None:
        await asyncio.sleep(3_600)
        noted.append(f"{loop.time():.3f}")
        for _ in range(1_000):
            await asyncio.sleep(0)
        noted.append(f"{loop.time():.3f}")

    assert play(work) == ["3600.000", "3600.002"]


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


def test_each_process_keeps_its_order_and_the_seed_decides_between_them() -> None:
    async def work(loop: SimulatedLoop, noted: list[str]) -> None:
        async def count(name: str) -> None:
            for number in range(5):
                noted.append(f"{name}{number}")
                await asyncio.sleep(0)

        await asyncio.gather(*(Node(name, loop).spawn(count(name)) for name in "ab"))

    orders = [play(work, seed=seed) for seed in range(5)]
    for order in orders:
        assert [one for one in order if one[0] == "a"] == ["a0", "a1", "a2", "a3", "a4"]
        assert [one for one in order if one[0] == "b"] == ["b0", "b1", "b2", "b3", "b4"]
    assert len(set(map(tuple, orders))) > 1
    assert play(work, seed=3) == orders[3]


def test_a_set_of_tasks_has_the_same_order_in_every_process() -> None:
    async def work(loop: SimulatedLoop, noted: list[str]) -> None:
        async def nothing() -> None:
            pass

        tasks = {loop.create_task(nothing(), name=f"{number}") for number in range(20)}
        done, _ = await asyncio.wait(tasks)
        noted += [one.get_name() for one in done]

    assert play(work) == [f"{number}" for number in range(20)]


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
