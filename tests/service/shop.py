"""A stream of orders as its writers and operators see it, with answers short enough to quote."""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import httpx

from tests.patience import wait_until
from tests.server import Api

NOON = 1_704_110_400_000
"""2024-01-01T12:00:00Z, where most stories begin."""
MINUTE = 60_000
_NUMBERS = count(1)


class Shop(Api):
    """A stream of its own on a server that others use too.

    Answers come without what every answer carries (``stream_id``, ``final``) and without a
    ``hint`` that says nothing.
    """

    def __init__(
        self, url: str, *, transport: httpx.BaseTransport | None = None, **settings: object
    ) -> None:
        super().__init__(url, f"shop/orders-{next(_NUMBERS)}", transport=transport)
        self._noted: dict[str, dict[str, Any]] = {}
        self.create(**settings)

    def says(self, writer: str, call: str, **body: object) -> dict[str, Any]:
        """Let a writer call, and return the answer."""
        return _short(self.post(f"writers/{writer}/{call}", **body))

    def hears(self, writer: str, call: str, **body: object) -> dict[str, Any]:
        """Let a writer call, and return the refusal without its texts."""
        answer = self.client.post(f"{self.path}/writers/{writer}/{call}", json=body)
        assert answer.is_error, answer.text
        texts = {"type", "title", "detail"}
        return {name: one for name, one in answer.json().items() if name not in texts}

    def notes(self, writer: str, time: int, offset: int, **more: object) -> dict[str, Any]:
        """Let a writer note a time at an offset of partition 0."""
        self._noted[writer] = {"time": time, "position": {"0": offset}, **more}
        return self.says(writer, "note-time", **self._noted[writer])

    def until(self, condition: Callable[[], bool], *, beating: str) -> None:
        """Wait while a writer repeats what it noted: so time passes for the clocks of others."""
        wait_until(
            lambda: (
                bool(self.says(beating, "note-time", **self._noted[beating])) and condition()
            )
        )

    @property
    def watermark(self) -> int | None:
        """Where event time stands."""
        stands: int | None = self.get("watermark")["watermark"]
        return stands

    @property
    def mark(self) -> tuple[int, dict[str, int]]:
        """The newest mark: ``lower`` and cut."""
        mark = self.get("watermark")["mark"]
        return mark["lower"], mark["cut"]

    def explanation(self) -> dict[str, Any]:
        """Why the watermark is where it is."""
        explained: dict[str, Any] = self.get("watermark")["explanation"]
        return explained

    def states(self) -> dict[str, str]:
        """The state of every writer."""
        return {one["writer"]: one["state"] for one in self.writers()}

    def writers(self, **query: object) -> Iterator[dict[str, Any]]:
        """List writers, page by page."""
        page = self.get("writers", **query)
        yield from page["writers"]
        while page["cursor"] is not None:
            page = self.get("writers", **query, cursor=page["cursor"])
            yield from page["writers"]


Open = Callable[..., Shop]
"""Makes a stream of a test's own; takes its settings."""


def _short(answer: dict[str, Any]) -> dict[str, Any]:
    left_out = {"stream_id", "final"} | ({"hint"} if answer.get("hint") is None else set())
    return {name: one for name, one in answer.items() if name not in left_out}
