"""The scaling policy in the service: its settings, what is told of it, restarts and a real load."""

import asyncio
import re
import threading
import time
from functools import partial
from typing import Any

import pytest

from controller import factory
from controller.background.scaling import sample
from controller.clocks import ListeningClock
from controller.streams import lifecycle
from reader_client import StreamClient
from tests.conftest import NewServer
from tests.patience import wait_until
from tests.service.log_api import LogApi, numbered
from tests.service.log_service import LogService, serving
from tidegauge.errors import LogIsExternalError
from tidegauge.wire.streams import ChangeStream, ScalingInfo
from writer_client import Writer


@pytest.mark.parametrize(
    ("scaling", "refusal"),
    [
        ("auto", 'scaling: should be "fixed" or a policy, such as {"events_per_s": 1000}'),
        ({}, "scaling.policy: give one target, events_per_s or bytes_per_s"),
        (
            {"events_per_s": 1, "bytes_per_s": 1},
            "scaling.policy: give one target, events_per_s or bytes_per_s",
        ),
        (
            {"events_per_s": 0},
            "scaling.policy.events_per_s: Input should be greater than or equal to 1, not 0",
        ),
        (
            {"events_per_s": 9, "window_ms": 1_999},
            "scaling.policy.window_ms: Input should be greater than or equal to 2000, not 1999",
        ),
        ({"events_per_s": 9, "rate": 2}, "scaling.policy.rate: this call has no such field"),
        (
            {"events_per_s": 9, "min_segments": 65},
            "scaling.policy.min_segments: 65 is above the limit of growing segments, 64: lower it, or raise max_segments",
        ),
    ],
)
def test_settings_that_are_wrong_are_refused_with_the_value_and_the_cure(
    log: LogApi, scaling: object, refusal: str
) -> None:
    refused = log.create(scaling=scaling)
    assert (refused["status"], refused["detail"]) == (422, refusal)


def test_external_logs_are_scaled_where_they_live(log: LogApi) -> None:
    assert log.create(log="external", scaling={"events_per_s": 9})["code"] == "log_is_external"
    log.create(log="external")
    answer = log.client.patch(
        log.path, json={"scaling": {"events_per_s": 9}}, headers={"if-match": "*"}
    )
    assert answer.json()["code"] == LogIsExternalError.code


def test_a_policy_comes_and_goes_by_patch_and_leaves_other_settings_alone(log: LogApi) -> None:
    assert log.create()["scaling"] is None

    def change(**settings: object) -> dict[str, Any]:
        headers = {"if-match": "*"}
        return log.json(log.client.patch(log.path, json=settings, headers=headers))

    changed = change(scaling={"bytes_per_s": "1000"})
    assert changed["config"]["scaling"] == {
        "events_per_s": None,
        "bytes_per_s": 1_000,
        "window_ms": 120_000,
        "cooldown_ms": 600_000,
        "min_segments": 1,
    }
    assert changed["scaling"]["unit"] == "bytes"
    assert change(min_writers=2)["config"]["scaling"] == changed["config"]["scaling"]
    assert change(scaling=None)["config"]["scaling"] == "fixed"
    assert change()["scaling"] is None


class Steps:
    """A service whose clock is moved by hand, a second at a time, as it takes no longer steps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ms = 0
        clock = partial(ListeningClock, monotonic_ms=lambda: self.now_ms)
        monkeypatch.setattr(factory, "ListeningClock", clock)

    async def let_pass(self, log: LogService, seconds: int) -> ScalingInfo:
        """Let time pass, and look at the load then."""
        clock = log.parts.clocks.listening
        clock.stamp()
        for _ in range(seconds):
            self.now_ms += 1_000
            clock.stamp()
        await log.parts.sequencer.submit(partial(sample, state=log.state))
        described = lifecycle.describe(log.state).scaling
        assert described is not None
        return described


@pytest.mark.parametrize(
    ("unit", "took"), [("events", "2.5 events/s"), ("bytes", "[0-9.]+ bytes/s")]
)
def test_rates_go_on_where_they_were_after_a_restart(
    unit: str, took: str, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten minutes without a service are no time without load: they do not count."""
    steps = Steps(monkeypatch)

    async def scene() -> None:
        async with serving(database_url) as log:
            await log.create(segments=1)
            change = ChangeStream.of_settings(scaling={f"{unit}_per_s": 1})
            await log.parts.sequencer.submit(
                partial(lifecycle.change_stream, state=log.state, change=change, if_match="*")
            )
            await steps.let_pass(log, 0)
            await log.register("w")
            await log.append("w", 1, 0, 1, numbered(0, 150))
            seen = await steps.let_pass(log, 60)
            assert seen.segments[0].waits == "measured for 2m first"
        steps.now_ms += 600_000
        async with serving(database_url) as log:
            await log.append("w", 1, 0, 2, numbered(150, 150))
            seen = await steps.let_pass(log, 60)
            (split,) = seen.actions
            assert (split.sealed, split.added) == ([0], [1, 2])
            assert re.fullmatch(
                f"segment 0 took {took}, above twice the target of 1", split.reason
            )
            assert [one.number for one in seen.segments] == [1, 2]
        async with serving(database_url) as log:
            assert lifecycle.describe(log.state).scaling == seen

    asyncio.run(scene())


class Pacing(threading.Thread):
    """A writer of some thousand events a second, or of a few."""

    def __init__(self, url: str, stream: str) -> None:
        super().__init__()
        self._url, self._stream = url, stream
        self.at_once = 100
        self.written = 0
        self.stop = threading.Event()

    def run(self) -> None:
        with Writer(self._url, self._stream, "w") as writer:
            while not self.stop.wait(0.05):
                for _ in range(self.at_once):
                    self.written += 1
                    writer.write(str(self.written), key=str(self.written))


@pytest.mark.only_on("sqlite")
def test_segments_follow_a_load_that_rises_and_falls_and_never_go_to_and_fro(
    new_server: NewServer,
) -> None:
    """The bounds are far from what a busy machine does: hundreds a second, and a few."""
    policy = {"events_per_s": 40, "window_ms": 2_000, "cooldown_ms": 2_000}
    stream = f"scaling/real-{time.monotonic_ns()}"
    with new_server() as server, StreamClient(server.url, stream) as client:
        client.create(segments=1, max_segments=3, scaling=policy)
        load = Pacing(server.url, stream)
        load.start()
        wait_until(lambda: _growing(client) == 2)
        server.kill()
        server.start()
        wait_until(lambda: _growing(client) == 3)
        load.at_once = 1
        wait_until(lambda: _growing(client) == 1)
        load.stop.set()
        load.join()
        described = client.describe()
        told = described.scaling
        assert told is not None
        assert [len(one.sealed) for one in told.actions] == [1, 1, 2, 2]
        assert all(" took " in one.reason for one in told.actions)
        assert sum((described.tail or {}).values()) == load.written
        scaled = [line for line in server.log.read_text().splitlines() if "scaled" in line]
        assert [one.reason in line for one, line in zip(told.actions, scaled, strict=True)] == (
            [True] * 4
        )


def _growing(client: StreamClient) -> int:
    return len(client.topology().unsealed)
