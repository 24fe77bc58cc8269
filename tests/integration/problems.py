"""What a refusal looks like, whatever was asked, and two streams to ask about."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.server import Api, ServerProcess

ONE = "/v1/streams/tests/one"
NOTE = f"{ONE}/writers/w/note-time"
EMBEDDED = "/v1/streams/tests/embedded"
EVENTS = f"{EMBEDDED}/segments/0/events"


@contextmanager
def asked(server: ServerProcess) -> Iterator[httpx.Client]:
    """Make a stream with an external log, on which a time is noted, and one with events."""
    with Api(server.url) as api:
        api.create()
        api.note("w", 1_700_000_000_000, 40)
        api.client.put(EMBEDDED, json={"segments": 1}).raise_for_status()
        yield api.client


def check_problem(answer: httpx.Response, status: int, code: str) -> Any:
    """Check that an answer is a problem document of a code; returns it."""
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json()
    assert (answer.status_code, document["code"]) == (status, code), document
    assert document["status"] == status
    assert document["type"] == f"urn:tidegauge:{code}"
    assert document["title"]
    assert document["detail"]
    return document
