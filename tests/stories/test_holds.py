"""The morning after: who held the watermark, over a kill of the service, and when a time was complete."""

import re
import time
from itertools import count

from typer.testing import CliRunner

from reader_client import StreamClient
from tests.server import ServerProcess
from tests.service.api import Api
from tidegauge_cli.verbs import app

STANDS = 1_700_000_000_000
ASKED = "2023-11-14T22:14Z"
"""Reached once the gateway that stands notes a later time."""


def test_a_night_with_a_kill_in_it_is_explained_in_the_morning(
    server: ServerProcess, api: Api
) -> None:
    api.create(hold_limit_ms=None)
    began_ms = time.time_ns() // 1_000_000
    api.note("gateway-7", STANDS, 1)
    numbers = count(1)

    def held() -> list[dict[str, object]]:
        number = next(numbers)
        api.note("gateway-1", STANDS + number * 1_000, number)
        if number % 5 == 0:
            api.note("gateway-7", STANDS, 1)  # it repeats itself: alive, and it stands
        found: list[dict[str, object]] = api.get("holds")["holds"]
        return found

    while not held():
        time.sleep(0.2)
    server.kill()
    server.start()
    (goes_on,) = held()
    assert (goes_on["writer"], goes_on["end"], goes_on["reported"]) == ("gateway-7", None, True)
    assert began_ms <= int(str(goes_on["began_ms"])) < began_ms + 5_000
    api.says("gateway-9", "register")  # a newcomer, that holds what is held
    held()
    api.note("gateway-7", STANDS + 10**9, 2)
    number = next(numbers)
    api.note("gateway-1", STANDS + number * 1_000, number)
    api.says("gateway-9", "note-time", time=STANDS + 10**9, position={}, incarnation=1)
    api.note("gateway-1", STANDS + 10**9, next(numbers))
    with StreamClient(server.url, api.name) as stream:
        spans = [(one.writer, one.end) for one in stream.holds(since=began_ms)]
        assert spans == [("gateway-9", "noted"), ("gateway-7", "noted")]
        first, second, *_ = stream.marks()
        assert stream.completed_at(STANDS) == first.marked_ms
        assert stream.completed_at(STANDS + 1) == second.marked_ms
    shown = _says(server, "why", api.name, "--since", "1h")
    assert re.search(r"gateway-7 .* reporting; noted a later time", shown)
    assert re.search(rf"{api.name} +\d+s +\d", _says(server, "streams", "--since", "1h"))
    said = _says(server, "why", api.name, "--at", ASKED)
    assert said.startswith("the watermark reached 2023-11-14T22:14:00Z at ")
    assert re.search(r"gateway-7 held it for \d", said)


def _says(server: ServerProcess, *verb: str) -> str:
    result = CliRunner().invoke(app, [*verb, "--url", server.url])
    assert result.exit_code == 0, result.output
    return result.stdout
