"""Asking the service: by GET alone, counted, and how it is known that nobody answers."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from math import inf
from typing import TypeVar

from pydantic import BaseModel

from tidegauge.client.outage import ServiceUnreachableError, UnexpectedAnswerError
from tidegauge.client.transport import Transport
from tidegauge.errors import InvalidRequestError, TidegaugeError, UnavailableError

_log = logging.getLogger(__name__)
_A = TypeVar("_A", bound=BaseModel)
_OUTAGES = (ServiceUnreachableError, UnavailableError, UnexpectedAnswerError)
_AGAIN_S = 2.0
_SHOWN_AFTER_S = 2.5
"""Of failing: longer than until the next try, and some seconds after the last answer."""
_ANSWERS_IN_S = 0.5
"""Beyond what it was asked to wait. Longer counts as failing, and so is shown after 3 s."""
_NOT_YET = "this call has no such parameter"
_REST = 10
"""A call is not repeated before this many times its own duration."""


@dataclass(frozen=True, slots=True)
class Outage:
    """Nobody answers.

    Attributes
    ----------
    url
        Where the service should be.
    since_ms
        Wall clock of the last answer, by this machine; None before anything was answered.
    reason
        What happened at the last try.
    """

    url: str
    since_ms: int | None
    reason: str


class Question:
    """Something that is asked again and again.

    Attributes
    ----------
    answered_s
        Wall clock of the last answer, or of the beginning.
    failure, failed_s
        Why there was none since, and when that began, by the monotonic clock.
    due_s
        When there should be an answer, by the same clock.
    refusal
        Why the service refuses to answer; None if it does answer.
    """

    def __init__(self) -> None:
        self.answered_s = time.time()
        self.failed_s = 0.0
        self.failure: str | None = None
        self.due_s = inf
        self.refusal: str | None = None

    def hear(self, refusal: str | None = None) -> None:
        """Take in that there was an answer, or a refusal."""
        self.answered_s, self.failure, self.refusal = time.time(), None, refusal
        self.due_s = inf

    def fail(self, why: str) -> None:
        """Take in that there was no answer."""
        if self.failure is None:
            self.failed_s = min(time.monotonic(), self.due_s)
        self.failure = why
        self.due_s = inf

    def fails_since_s(self) -> float:
        """Return since when there is no answer, by the monotonic clock."""
        return self.due_s if self.failure is None else self.failed_s


_asked: ContextVar[Question] = ContextVar("asked")
"""What a call is made for."""


class Asking:
    """Questions to one service.

    Attributes
    ----------
    asked
        How often each kind of question was asked.
    skew_ms
        The service's clock, against this machine's.
    heard
        Whether the service has ever said anything.
    """

    def __init__(self, url: str, token: str | None) -> None:
        self._transport = Transport(
            url, token=token, retry_for=timedelta(0), log=lambda _line: None
        )
        self.url = self._transport.url
        self.asked: Counter[str] = Counter()
        self.received_bytes = 0
        self.skew_ms = 0
        self.heard = False

    async def get(
        self,
        kind: str,
        path: str,
        answer: type[_A],
        *,
        wait_ms: int | None = None,
        **params: object,
    ) -> _A:
        """Ask for something, which may wait for news; raises what `Transport.send` does."""
        self.asked[kind] += 1
        question = _asked.get(None)
        if question is not None:
            question.due_s = time.monotonic() + (wait_ms or 0) / 1_000 + _ANSWERS_IN_S
        params["wait_ms"] = wait_ms
        response = await self._transport.send("GET", path, retry=True, params=params)
        self.received_bytes += len(response.content)
        try:
            found = answer.model_validate_json(response.content)
        except ValueError as error:
            body = response.text[:200]
            raise UnexpectedAnswerError(self.url, response.status_code, body) from error
        now_ms = getattr(found, "now_ms", None)
        if now_ms is not None:
            self.skew_ms = now_ms - round(time.time() * 1_000)
        return found

    def now_ms(self) -> int:
        """Return what the service's clock shows."""
        return round(time.time() * 1_000) + self.skew_ms

    def outage_of(self, questions: Iterable[Question]) -> Outage | None:
        """Return what keeps the service from answering one of them; None if it answers all."""
        since_s = time.monotonic() - _SHOWN_AFTER_S
        failed = [one for one in questions if one.fails_since_s() < since_s]
        if not failed:
            return None
        first = min(failed, key=lambda one: one.answered_s)
        since_ms = round(first.answered_s * 1_000) if self.heard else None
        return Outage(self.url, since_ms, first.failure or "it says nothing")

    async def repeat(
        self,
        question: Question,
        ask: Callable[[], Awaitable[None]],
        pause_s: Callable[[], float],
        *,
        wake: asyncio.Event | None = None,
        waits: bool = False,
    ) -> None:
        """Ask again and again, sooner when somebody wakes it, and every 2 s while nobody answers.

        What takes long is asked less often, unless it ``waits`` for news.
        """
        waker = wake or asyncio.Event()
        _asked.set(question)
        while True:
            began = time.monotonic()
            waker.clear()
            wait_s = _AGAIN_S
            try:
                await ask()
                self.heard = True
                question.hear()
                rest_s = 0.0 if waits else _REST * (time.monotonic() - began)
                wait_s = max(pause_s(), rest_s)
            except _OUTAGES as error:
                question.fail(getattr(error, "reason", None) or str(error))
                _log.debug("no answer", exc_info=True)
            except TidegaugeError as error:
                self.heard = True
                question.hear(self._words_of(error))
            except Exception as error:  # noqa: BLE001 (it is logged and shown)
                # A fault of ours: the page says so, and does not go stale in silence.
                _log.exception("what was answered could not be taken in")
                question.fail(f"a fault of this dashboard, see its log: {error!r}")
            await _wait(waker, wait_s)

    def _words_of(self, error: TidegaugeError) -> str:
        if isinstance(error, InvalidRequestError) and _NOT_YET in error.detail:
            return (
                f"The service at {self.url} is older than this dashboard: update it, or use "
                f"`tidegauge ui` of its version. ({error})"
            )
        return str(error)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()


async def _wait(wake: asyncio.Event, wait_s: float) -> None:
    try:
        async with asyncio.timeout(wait_s):
            await wake.wait()
    except TimeoutError:
        return
