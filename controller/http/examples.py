"""An example of every call, in the order of a story that a test plays against a server."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Any

import pyarrow as pa
from pyarrow import ipc

from tidegauge.wire.columns import EVENT_SCHEMA

_STORY, _ANSWERS = (
    json.loads(files(__package__).joinpath(name).read_text("utf-8"))
    for name in ("examples.json", "answers.json")
)
NAMES: dict[str, str] = _STORY["names"]
"""What all paths name."""


@dataclass(frozen=True, slots=True)
class Example:
    """One request and its answer; shown in the documentation, and run by a test.

    Attributes
    ----------
    call
        Method and path, as the route declares it.
    body
        JSON, or the text of another content type; bytes are shown as Base64.
    answer
        JSON, the beginning of a text, or None for a body that is not shown; recorded by
        ``scripts/reference_pages.py``.
    """

    call: str
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
        return self.route.format_map(NAMES)


def _example(stored: dict[str, Any]) -> Example:
    """Read an example; the body ``{"arrow": {…}}`` is an Arrow stream of one event."""
    example = Example(**stored, answer=_ANSWERS.get(stored["call"]))
    if not (isinstance(example.body, dict) and "arrow" in example.body):
        return example
    event = example.body["arrow"]
    return replace(example, body=_arrow(event | {"value": event["value"].encode()}))


def _arrow(event: dict[str, object]) -> bytes:
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, EVENT_SCHEMA) as stream:
        stream.write_batch(pa.RecordBatch.from_pylist([event], EVENT_SCHEMA))
    body: bytes = sink.getvalue().to_pybytes()
    return body


EXAMPLES = tuple(map(_example, _STORY["examples"]))
