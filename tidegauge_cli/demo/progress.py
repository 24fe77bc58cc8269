"""How far the replay is, in one line."""

from tidegauge.event_time import describe_event_time
from tidegauge_cli.demo.address import StreamAddress
from tidegauge_cli.demo.flights import HOUR_MS
from tidegauge_cli.demo.replay import ReplayClock


def describe_progress(address: StreamAddress, clock: ReplayClock) -> str:
    """Say where the replay and the watermark of its stream stand."""
    stream = address.describe()
    now = clock.now_ms()
    if stream is None:
        return f"{_minute(now)}  {address.stream} was deleted"
    stands = "none yet"
    if stream.watermark is not None:
        behind_h = (now - stream.watermark) / HOUR_MS
        stands = f"{_minute(stream.watermark)} ({behind_h:.1f} h behind)"
    rows = sum((stream.tail or {}).values())
    return f"{_minute(now)}  watermark {stands}  {rows} rows"


def _minute(time_ms: int) -> str:
    return describe_event_time(time_ms)[5:16].replace("T", " ")
