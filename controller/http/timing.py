"""How long answers take, and which end in a defect: told to metrics and log."""

import logging
from asyncio import CancelledError
from time import perf_counter
from typing import Protocol

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controller.http.lost_calls import log_lost
from controller.http.peers import is_passed_on, says_moved
from controller.http.problems import send_problem
from controller.http.request_fields import request_fields
from controller.metrics import Metrics
from tidegauge.errors import InternalError, OutcomeUnknownError, UnavailableError

OTHER = "other"
"""The route of requests that no route serves, and of the files of the documentation."""
FORWARDED = "forwarded"
"""The route of requests that another controller answers, or nobody."""
_COUNTED = "tidegauge.counted"
_MOVED = "tidegauge.moved"
_FAILED = 500
_HUNG_UP = 499
"""Counted for who is gone before all of the request came: an error of the client's."""
_ENDED = "the service ended before the answer"
_log = logging.getLogger(__name__)


class HotApp(Protocol):
    """An application of one route."""

    route: str
    """Its template."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""


class Timing:
    """Calls applications, counts how long they take, and logs their defects.

    A defect ends here, answered with 500 by the application: uvicorn would log it once more. So
    does what is cut off when the service ends and has waited long enough: that is no defect.

    Parameters
    ----------
    metrics
        What is told.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._observe = metrics.request_times.observe

    async def call_hot(self, app: HotApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of a hot path; this adds two microseconds."""
        scope[_COUNTED] = True
        began = perf_counter()
        status = await self._status_of(app, scope, receive, send)
        self._observe(app.route, status, perf_counter() - began)

    async def call(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of the framework, which leaves its route in the scope."""
        scope[_COUNTED] = True
        began = perf_counter()
        status = await self._status_of(app, scope, receive, send)
        if scope.get(_MOVED):  # nobody gets this answer: another one is asked for
            del scope[_COUNTED]
        else:
            self._count(scope, getattr(scope.get("route"), "path", OTHER), status, began=began)

    async def call_elsewhere(
        self, app: ASGIApp, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer a request, at another controller perhaps; if it is here, it counts itself."""
        began = perf_counter()
        status = await self._status_of(app, scope, receive, send)
        passed_on = scope.get(_MOVED) and is_passed_on(scope)
        if _COUNTED not in scope and not passed_on:
            self._count(scope, FORWARDED, status, began=began)

    async def _status_of(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> int:
        status: int | None = None

        async def noting(message: Message) -> None:
            nonlocal status
            await send(message)
            if message["type"] == "http.response.start":
                status = message["status"]
                scope[_MOVED] = status == UnavailableError.status and says_moved(message)

        try:
            await app(scope, receive, noting)
        except ClientDisconnect:
            return _HUNG_UP
        except CancelledError:
            return status or await _cut_off(scope, send)
        except Exception:  # noqa: BLE001 (it is logged)
            self._metrics.count_defect()
            _log.exception("request failed", extra=request_fields(scope))
            if status is None:
                request = f"{scope['method']} {scope['path']}"
                await send_problem(send, InternalError(request))
        return status or _FAILED

    def _count(self, scope: Scope, route: str, status: int, *, began: float) -> None:
        waits = b"wait_ms=" in scope["query_string"]
        times = self._metrics.long_poll_times if waits else self._metrics.request_times
        times.observe(route, status, perf_counter() - began)


async def _cut_off(scope: Scope, send: Send) -> int:
    """Answer who is waited for no longer; what it asked for may be on its way to the disk."""
    reads = scope["method"] == "GET"
    error = UnavailableError(_ENDED) if reads else OutcomeUnknownError(_ENDED)
    log_lost(scope)
    await send_problem(send, error)
    return error.status
