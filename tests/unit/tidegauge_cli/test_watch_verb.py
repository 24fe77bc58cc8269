"""What `tidegauge watch` says of an outage."""

from types import SimpleNamespace
from unittest.mock import AsyncMock

import pytest

from tidegauge.client.outage import ServiceUnreachableError
from tidegauge.errors import UnavailableError
from tidegauge_cli.watching import watch_stream

NOBODY = ServiceUnreachableError("http://here", "refused")
AWAY = UnavailableError("the database is away")


@pytest.mark.anyio
async def test_an_outage_is_reported_once_for_each_reason_and_so_is_its_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stands = SimpleNamespace(in_full="It stands.", reason="no_writers", holders=())
    goes_on, sealed = (
        SimpleNamespace(mark=None, final=final, explanation=stands) for final in (False, True)
    )
    service = AsyncMock()
    service.explain.side_effect = [goes_on, NOBODY, NOBODY, AWAY, AWAY, goes_on, NOBODY, sealed]
    await watch_stream(service, "/v1/streams/a/b", as_json=False)
    said = capsys.readouterr()
    assert said.out == "It stands.\n"
    assert said.err.splitlines() == [
        f"tidegauge: {NOBODY}",
        f"tidegauge: {AWAY}",
        "tidegauge: the service answers again",
        f"tidegauge: {NOBODY}",
        "tidegauge: the service answers again",
    ]
