"""What is cut off when the service ends is answered once, whatever came before."""

import asyncio
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from controller.http.timing import Timing
from controller.metrics.counters import Metrics

START: Message = {"type": "http.response.start", "status": 200, "headers": []}
BODY: Message = {"type": "http.response.body", "body": b"{}"}
SCOPE = {"type": "http", "path": "/v1/note-times", "query_string": b""}


class _Answering:
    """Sends some of an answer, and hangs."""

    def __init__(self, *messages: Message) -> None:
        self._messages = messages
        self.hangs = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 (what every application takes)
        for message in self._messages:
            await send(message)
        self.hangs.set()
        await asyncio.Event().wait()


def _cut_off(*messages: Message, method: str = "POST") -> list[Message]:
    """Let a call hang after it sent some of an answer, cut it off, and return all that was sent."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError

    async def scene() -> None:
        app = _Answering(*messages)
        call = Timing(app, Metrics())(SCOPE | {"method": method}, receive, send)
        task = asyncio.create_task(call)
        await app.hangs.wait()
        task.cancel()
        await task

    asyncio.run(scene())
    return sent


@pytest.mark.parametrize(("method", "status"), [("POST", 502), ("GET", 503)])
def test_who_waits_for_an_answer_is_told_that_there_will_be_none(
    method: str, status: int
) -> None:
    start, _body = _cut_off(method=method)
    assert start["status"] == status


def test_an_answer_that_has_begun_is_not_followed_by_another() -> None:
    assert _cut_off(START) == [START]
    assert _cut_off(START, BODY) == [START, BODY]
