"""Asking the service: by GET alone, counted, and how it is told that nobody answers."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from pydantic import BaseModel

from tidegauge.client.transport import ServiceUnreachableError, Transport, UnexpectedAnswerError
from tidegauge.errors import InvalidRequestError, TidegaugeError, UnavailableError

_log = logging.getLogger(__name__)
_A = TypeVar("_A", bound=BaseModel)
_OUTAGES = (ServiceUnreachableError, UnavailableError, UnexpectedAnswerError)
_AGAIN_S = 2.0
_TOLD_AFTER_S = 3.0
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
        Wall clock of the last answer, by this machine.
    reason
        What happened at the last try.
    """

    url: str
    since_ms: int
    reason: str


class Asking:
    """Questions to one service.

    Attributes
    ----------
    asked
        How often each kind of question was asked.
    skew_ms
        The service's clock, against this machine's.
    """

    def __init__(self, url: str, token: str | None) -> None:
        self._transport = Transport(
            url, token=token, retry_for=timedelta(0), tell=lambda _line: None
        )
        self.url = self._transport.url
        self.asked: Counter[str] = Counter()
        self.received_bytes = 0
        self.skew_ms = 0
        self._answered_s = time.time()
        self._failure: str | None = None

    async def get(self, kind: str, path: str, answer: type[_A], **params: object) -> _A:
        """Ask for something; raises what `Transport.send` does."""
        self.asked[kind] += 1
        try:
            response = await self._transport.send("GET", path, retry=True, params=params)
        except _OUTAGES as error:
            self._failure = getattr(error, "reason", None) or str(error)
            raise
        except TidegaugeError:
            self._hear()
            raise
        self.received_bytes += len(response.content)
        try:
            found = answer.model_validate_json(response.content)
        except ValueError as error:
            self._failure = "it is not of this version"
            body = response.text[:200]
            raise UnexpectedAnswerError(self.url, response.status_code, body) from error
        self._hear()
        now_ms = getattr(found, "now_ms", None)
        if now_ms is not None:
            self.skew_ms = now_ms - round(time.time() * 1_000)
        return found

    def _hear(self) -> None:
        self._answered_s = time.time()
        self._failure = None

    def now_ms(self) -> int:
        """Tell what the service's clock shows."""
        return round(time.time() * 1_000) + self.skew_ms

    @property
    def outage(self) -> Outage | None:
        """What keeps the service from answering; None if it does, or did a moment ago."""
        if self._failure is None or time.time() - self._answered_s < _TOLD_AFTER_S:
            return None
        return Outage(self.url, round(self._answered_s * 1_000), self._failure)

    async def repeat(
        self,
        ask: Callable[[], Awaitable[None]],
        pause_s: Callable[[], float],
        *,
        refuse: Callable[[str], None],
        wake: asyncio.Event | None = None,
        waits: bool = False,
    ) -> None:
        """Ask again and again, sooner when somebody wakes it, and every 2 s while nobody answers.

        What takes long is asked less often, unless it ``waits`` for news. Why the service refuses
        is handed over; an outage is told by `outage`.
        """
        waker = wake or asyncio.Event()
        while True:
            began = time.monotonic()
            waker.clear()
            wait_s = _AGAIN_S
            try:
                await ask()
                rest_s = 0.0 if waits else _REST * (time.monotonic() - began)
                wait_s = max(pause_s(), rest_s)
            except _OUTAGES:
                _log.debug("no answer", exc_info=True)
            except TidegaugeError as error:
                refuse(self._words_of(error))
            except Exception as error:  # noqa: BLE001 (it is logged and shown)
                # A fault of ours: the page says so, and does not go stale in silence.
                _log.exception("what was answered could not be taken in")
                self._failure = f"a fault of this dashboard, see its log: {error!r}"
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
