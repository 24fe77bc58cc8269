"""How far the replay is, and how fast it was, each in one line."""

from tidegauge.event_time import describe_event_time
from tidegauge_cli.demo.address import StreamAddress
from tidegauge_cli.demo.flights import HOUR_MS
from tidegauge_cli.demo.replay import ReplayClock


def describe_progress(address: StreamAddress, clock: ReplayClock) -> str:
    """Say where the replay and the watermark of its stream stand."""
    stream = address.describe()
    now = clock.now_ms
    if stream is None:
        return f"{_minute(now)}  {address.stream} was deleted"
    stands = "none yet"
    if stream.watermark is not None:
        behind_h = (now - stream.watermark) / HOUR_MS
        stands = f"{_minute(stream.watermark)} ({behind_h:.1f} h behind)"
    rows = sum((stream.tail or {}).values())
    return f"{_minute(now)}  watermark {stands}  {rows} rows"


def describe_speed(clock: ReplayClock) -> str:
    """Say how fast the flights passed."""
    return (
        f"replayed in {clock.ran_s:.0f} s, {clock.mean_speed:.0f} times as fast as the flights; "
        f"waiting for Spark took {clock.waited_s:.0f} s of it"
    )


def _minute(time_ms: int) -> str:
    return describe_event_time(time_ms)[5:16].replace("T", " ")
