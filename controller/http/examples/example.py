"""What an example of a call consists of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

STREAM = {"scope": "flights", "stream": "departures"}
"""The stream of all examples."""
STREAM_ID = "0b9f3a52-7c1e-4d6b-9a58-2f6f1c7d8e90"


def facts(watermark: int | None, *, final: bool = False) -> dict[str, Any]:
    """Give what every answer about the stream says."""
    return {"stream_id": STREAM_ID, "watermark": watermark, "final": final}


def mark(revision: int, lower: int, offset: int) -> dict[str, Any]:
    """Describe a mark of a stream whose only writer is the one of the examples."""
    return {
        "revision": revision,
        "lower": lower,
        "upper": lower,
        "cut": {"0": offset},
        "final": lower == 2**63 - 1,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One request and its answer; shown in the documentation, and run by a test.

    Attributes
    ----------
    call
        Method and path, as the route declares it.
    path
        Values of the path's parameters.
    query
        Values of query parameters.
    headers
        Values of headers.
    body
        JSON, or the text of another content type; bytes are shown as Base64.
    status
        Of the answer.
    answer
        JSON, the beginning of a text, or None for a body that is not shown.
    """

    call: str
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    status: int = 200
    answer: Any = None

    @property
    def method(self) -> str:
        """The HTTP method."""
        return self.call.partition(" ")[0]

    @property
    def route(self) -> str:
        """The path with the names of its parameters."""
        return self.call.partition(" ")[2]

    @property
    def url(self) -> str:
        """The path with the values of its parameters."""
        return self.route.format_map(self.path)
