"""What a refusal looks like, whatever was asked, and two streams to ask about."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import httpx

from tidegauge.errors import problem_of

ONE = "/v1/streams/tests/one"
NOTE = f"{ONE}/writers/w/note-time"
EMBEDDED = "/v1/streams/tests/embedded"
EVENTS = f"{EMBEDDED}/segments/0/events"
TIME = 1_700_000_000_000
REPORT = {"time": TIME, "position": {}}
NO_TIMES = ["1.5", "1e3", "1.0", "true", '"soon"', '"1.5"', '"2024-01-01T00:00:00"', "[1]"]
NO_TIMES += ["9223372036854775808", "-9223372036854775809", '"9223372036854775808"']
"""JSON that is no event time."""
_PYTHON = re.compile(r"\bNone\b|\bTrue\b|\bFalse\b|dictionary|sys\.|Traceback")
_NAMED = {
    "unsupported_media_type": ("content_type", "content-type"),
    "misdirected_request": ("host", "host"),
    "foreign_origin": ("origin", "origin"),
}
"""What a document repeats, and the header that had it."""
_MOST = 5_000
"""Characters of a header that come back."""


def make_streams(client: httpx.Client) -> None:
    """Make a stream with an external log, on which a time is noted, and one with events."""
    external = {"log": "external", "segments": 1, "mark_interval_ms": 0}
    client.put(ONE, json=external).raise_for_status()
    report = {"time": TIME, "position": {"0": 40}}
    client.post(NOTE, json=report).raise_for_status()
    client.put(EMBEDDED, json={"segments": 1}).raise_for_status()


def check_problem(answer: httpx.Response, status: int, code: str) -> Any:
    """Check that an answer is a problem document of a code, in words of JSON; returns it."""
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json()
    assert (answer.status_code, document["code"]) == (status, code), document
    assert document["status"] == status
    assert document["type"] == f"urn:tidegauge:{code}"
    assert document["title"]
    assert document["detail"]
    assert _PYTHON.search(document["detail"]) is None, document["detail"]
    return document


class Row(NamedTuple):
    """A request, and what it is answered: a status or, if it is refused, also a code and a part of the detail."""

    answer: str
    call: str
    body: Any
    headers: Any

    def __str__(self) -> str:
        return f"{self.call:.60} {self.headers or ''!s:.40} {self.body!s:.40}"

    def send(self, client: httpx.Client) -> httpx.Response:
        method, path = self.call.split(" ")
        if isinstance(self.body, bytes):
            return client.request(method, path, content=self.body, headers=self.headers)
        if isinstance(self.body, str):
            content = self.body.encode("utf-8", "surrogateescape")
            headers = {"content-type": "application/json"} | self.headers
            return client.request(method, path, content=content, headers=headers)
        body = REPORT if self.body is None and method == "POST" else self.body
        return client.request(method, path, json=body, headers=self.headers)

    def check(self, answer: httpx.Response) -> Any:
        """Check the answer to a request that is refused; returns the document."""
        said, _, detail = self.answer.partition(": ")
        status, code = said.split()
        document = check_problem(answer, int(status), code)
        assert len(answer.content) < 4 * _MOST
        assert detail in document["detail"]
        assert all(error["field"] and error["message"] for error in document.get("errors", []))
        if code in _NAMED:
            member, header = _NAMED[code]
            given = self.headers.get(header, "")
            assert document[member] == given or len(given) > _MOST
        if code != "method_not_allowed":  # which no client raises
            assert problem_of(document).document() == document
        return document


Asked: TypeAlias = str | tuple[str, Any] | tuple[str, Any, Any]
"""Method and path, a body, and headers.

An object or a text is sent as JSON, bytes as they are; by default a POST is a report.
"""


def rows(table: Mapping[str, list[Asked]]) -> list[Row]:
    """Make rows of the requests that are answered alike."""
    made = []
    for answer, requests in table.items():
        for asked in requests:
            call, *more = (asked,) if isinstance(asked, str) else asked
            body, headers = [*more, None, None][:2]
            made.append(Row(answer, call, body, headers or {}))
    return made
