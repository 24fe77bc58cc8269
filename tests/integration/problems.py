"""What a refusal looks like, whatever was asked."""

from typing import Any

import httpx


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
