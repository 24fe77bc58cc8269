"""How long a call waits for news, and what is left of that when it is asked again."""

import asyncio
import re

from starlette.types import Scope

_WAIT_MS = re.compile(rb"(?<![^&])wait_ms=(\d{1,19})(?![^&])")


class LongPoll:
    """A call, from when it came until it has waited as long as it wants; at once if it does not.

    How long it wants to is found where it is written plainly, as all clients do.

    Parameters
    ----------
    scope
        What was asked.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._clock = asyncio.get_running_loop().time
        given = _WAIT_MS.findall(scope["query_string"])
        self._ends = self._clock() + (int(given[-1]) / 1_000 if given else 0.0)

    @property
    def waited_until(self) -> float:
        """Until when it has waited because it wants to, on the loop's clock."""
        return min(self._clock(), self._ends)

    def shorten(self) -> None:
        """Let it wait for no more than the rest, whoever answers it next."""
        left_ms = max(0, int((self._ends - self._clock()) * 1_000))
        query = _WAIT_MS.sub(b"wait_ms=%d" % left_ms, self._scope["query_string"])
        self._scope["query_string"] = query
