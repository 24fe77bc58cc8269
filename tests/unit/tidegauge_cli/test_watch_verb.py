"""What `tidegauge watch` says of an outage."""

from types import SimpleNamespace
from typing import Any

import pytest

from tidegauge.client.outage import ServiceUnreachableError
from tidegauge.errors import UnavailableError
from tidegauge_cli.watching import watch_stream

NOBODY = ServiceUnreachableError("http://here", "refused")
AWAY = UnavailableError("the database is away")


class _Flickering:
    """A service that is away now and then, and sealed in the end."""

    def __init__(self, *answers: Any) -> None:
        self._answers = iter(answers)

    async def get(self, _path: str, _answer: Any, **_params: Any) -> None:
        """Answer a long poll without marks."""

    async def explain(self, _path: str) -> Any:
        given = next(self._answers)
        if isinstance(given, Exception):
            raise given
        return SimpleNamespace(mark=None, final=given, explanation=_Explanation())


class _Explanation:
    in_full, reason = "It stands.", "no_writers"
    holders: tuple[()] = ()


@pytest.mark.anyio
async def test_an_outage_is_reported_once_for_each_reason_and_so_is_its_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers = [False, NOBODY, NOBODY, AWAY, AWAY, False, NOBODY, True]
    await watch_stream(_Flickering(*answers), "/v1/streams/a/b", as_json=False)  # type: ignore[arg-type]
    said = capsys.readouterr()
    assert said.out == "It stands.\n"
    assert said.err.splitlines() == [
        f"tidegauge: {NOBODY}",
        f"tidegauge: {AWAY}",
        "tidegauge: the service answers again",
        f"tidegauge: {NOBODY}",
        "tidegauge: the service answers again",
    ]
