"""The stream that the demo replays its flights into."""

import subprocess
import sys

from tests.server import Api, ServerProcess
from tidegauge_cli.demo.address import StreamAddress
from tidegauge_cli.demo.replay import REPLAYED


def test_a_carrier_with_a_flight_in_the_air_is_waited_for_however_slow_the_replay_is(
    shared_server: ServerProcess,
) -> None:
    stream = "demo/slow"
    StreamAddress(shared_server.url, stream).create(segments=1, **REPLAYED)
    with Api(shared_server.url, stream) as api:
        api.note("AA", 1_357_030_000_000)
        api.note("HA", 1_357_020_000_000)
        api.note("AA", 1_357_060_000_000)
        held = api.get("watermark")["explanation"]
    assert (held["holders"][0]["writer"], held["waiting"]) == ("HA", ["AA"])
    assert "it is never dropped" in held["sentence"]


def test_every_flight_lands_however_fast_the_replay_is(shared_server: ServerProcess) -> None:
    stream = "demo/fast"
    options = [f"--url={shared_server.url}", f"--stream={stream}", "--days=1"]
    command = [sys.executable, "-m", "tidegauge_cli", "demo", "producer", *options]
    subprocess.run([*command, "--speed=1e10"], check=True, timeout=50)
    described = StreamAddress(shared_server.url, stream).describe()
    assert described is not None
    assert (described.final, sum((described.tail or {}).values())) == (True, 690)
