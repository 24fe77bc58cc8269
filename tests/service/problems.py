"""What a refusal looks like, whatever was asked, and two streams to ask about."""

import re
from typing import Any

import httpx

ONE = "/v1/streams/tests/one"
NOTE = f"{ONE}/writers/w/note-time"
EMBEDDED = "/v1/streams/tests/embedded"
EVENTS = f"{EMBEDDED}/segments/0/events"
_PYTHON = re.compile(r"\bNone\b|\bTrue\b|\bFalse\b|dictionary|sys\.|Traceback")


def make_streams(client: httpx.Client) -> None:
    """Make a stream with an external log, on which a time is noted, and one with events."""
    external = {"log": "external", "segments": 1, "mark_interval_ms": 0}
    client.put(ONE, json=external).raise_for_status()
    report = {"time": 1_700_000_000_000, "position": {"0": 40}}
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
