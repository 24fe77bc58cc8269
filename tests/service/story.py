"""The story that the examples of all calls tell."""

from collections.abc import Iterator, Mapping
from typing import Any

import httpx

from controller.http.examples import NAMES, Example


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


def operations(document: Any) -> Iterator[tuple[str, Any]]:
    """List the operations of an OpenAPI document by method and path."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation
