"""The story that the examples of all calls tell."""

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

import httpx

from controller.http.examples import NAMES, Example

_CHANGING = {
    "advanced_ms",
    "completed_ms",
    "created_ms",
    "detail",
    "expires_in_ms",
    "finished_ms",
    "id",
    "marked_ms",
    "marks_per_s",
    "now_ms",
    "opened_ms",
    "sealed_ms",
    "sentence",
    "silent_ms",
    "stood_ms",
    "stream_id",
    "stream_ids",
    "transaction",
    "version",
}
"""What differs from run to run, and the version."""


class StoryClient(httpx.Client):
    """Plays examples, with the ids that the service chose in place of those that they name."""

    _transaction = NAMES["transaction"]
    _stream_id = ""

    def play(
        self, example: Example, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """Send an example, with further headers."""
        query = {**example.query}
        if "stream_id" in query:
            query["stream_id"] = self._stream_id
        url, body = example.url.replace(NAMES["transaction"], self._transaction), example.body
        answer = self.request(
            example.method,
            url,
            params=query,
            headers={**example.headers, **(headers or {})},
            json=body if isinstance(body, dict) else None,
            content=None if isinstance(body, dict) else body,
        )
        if answer.is_success and isinstance(example.answer, dict):
            known = answer.json()
            self._stream_id = known.get("stream_id", self._stream_id)
            if url.endswith("/transactions") and example.method == "POST":
                self._transaction = known["id"]
        return answer


def recorded(answer: httpx.Response, former: Any) -> Any:
    """Return an answer as it is documented; what differs from run to run stays as it was."""
    if not answer.content or answer.headers["content-type"].startswith("application/vnd"):
        return None
    if "json" in answer.headers["content-type"]:
        return _renewed(answer.json(), former)
    return former if former and answer.text.startswith(former) else answer.text


def _renewed(value: Any, former: Any) -> Any:
    if isinstance(value, dict):
        known = former if isinstance(former, dict) else {}
        return {
            name: known[name]
            if name in _CHANGING and type(known.get(name)) is type(one)
            else _renewed(one, known.get(name))
            for name, one in value.items()
        }
    if isinstance(value, list):
        before = former[: len(value)] if isinstance(former, list) else []
        return [_renewed(*pair) for pair in zip_longest(value, before)]
    return value


def operations(document: Any) -> Iterator[tuple[str, Any]]:
    """List the operations of an OpenAPI document by method and path."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation
