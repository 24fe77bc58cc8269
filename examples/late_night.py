"""A night in small: a gateway stands for a while, and the morning after says so.

    pip install '.[service,writer]'
    tidegauge serve &
    python -m examples.late_night --seconds 30

Three gateways note the time; a fourth one, gateway-7, repeats an old one for as long as
``--seconds`` says, and then notes the time as well. A fifth joins meanwhile, and is the last to
note. Kill the service and start it again on the way: the night is the same.
"""

import argparse
import time
from contextlib import ExitStack

from reader_client import StreamClient
from writer_client import TimeReporter

_STEP_S = 0.5


def play(url: str, stream: str, seconds: float) -> int:
    """Play the night, and return the time at which gateway-7 stood, ms."""
    with ExitStack() as stack:
        client = stack.enter_context(StreamClient(url, stream))
        client.create(log="external", segments=1, hold_limit_ms=None)

        def start(number: int) -> TimeReporter:
            return stack.enter_context(TimeReporter(url, stream, f"gateway-{number}"))

        others, seven = [start(number) for number in (1, 2, 3)], start(7)
        stood = _now()
        for gateway in (*others, seven):
            gateway.note_time(stood, {0: 0})
        nine: TimeReporter | None = None
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            for gateway in others:
                gateway.note_time(_now(), {0: 0})
            seven.note_time(stood, {0: 0})
            if nine is None and left < seconds / 4:
                nine = start(9)
                nine.open()
            time.sleep(_STEP_S)
        seven.note_time(_now(), {0: 0})
        time.sleep(_STEP_S)
        if nine is not None:
            nine.note_time(_now(), {0: 0})
        client.wait_until(stood + 1)
    return stood


def _now() -> int:
    return time.time_ns() // 1_000_000


def main() -> None:
    """Read the options, play the night, and say what to ask."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--url", default="http://127.0.0.1:8470")
    options.add_argument("--stream", default="fleet/positions")
    options.add_argument("--seconds", type=float, default=30.0, help="for how long it stands")
    given = options.parse_args()
    print(f"gateway-7 stands for {given.seconds:g} s", flush=True)
    stood = play(given.url, given.stream, given.seconds)
    print("it is over; ask who it was:")
    print("  tidegauge streams --since 1h")
    print(f"  tidegauge why {given.stream} --since 1h")
    print(f"  tidegauge why {given.stream} --at {stood + 1}")


if __name__ == "__main__":
    main()
