"""How long answers take, and which end in a defect: counted and logged."""

import logging
from asyncio import CancelledError
from time import perf_counter

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controller.access.callers import request_fields
from controller.http.messages.problems import send_problem
from controller.metrics.counters import Metrics
from tidegauge.errors import InternalError, OutcomeUnknownError, UnavailableError

ROUTE = "tidegauge.route"
"""In the scope of a request: which route answers it."""
OTHER = "other"
"""The route of requests that no route serves, and of the files of the documentation."""
_HUNG_UP = 499
"""Counted if the client was gone before all of the request came: its own error."""
_ENDED = "the service ended before the answer"
_log = logging.getLogger(__name__)


class Timing:
    """The one middleware around every call: it counts how long an answer takes, and logs defects.

    A defect ends here, answered with 500 by the application: uvicorn would log it once more. So
    does what is cut off when the service ends and has waited long enough: that is no defect.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; this adds two microseconds."""
        began = perf_counter()
        status: int | None = None

        async def noting(message: Message) -> None:
            nonlocal status
            await send(message)
            if message["type"] == "http.response.start":
                status = message["status"]

        try:
            await self._app(scope, receive, noting)
        except ClientDisconnect:
            status = _HUNG_UP
        except CancelledError:
            if status is None:  # what it asked for may be on its way to the disk
                reads = scope["method"] == "GET"
                error = UnavailableError(_ENDED) if reads else OutcomeUnknownError(_ENDED)
                await send_problem(send, error)
                status = error.status
        except Exception:  # noqa: BLE001 (it is logged)
            self._metrics.tally["defects"] += 1
            _log.exception("request failed", extra=request_fields(scope))
            if status is None:
                request = f"{scope['method']} {scope['path']}"
                await send_problem(send, InternalError(request))
        route: str | None = scope.get(ROUTE, OTHER)
        if route is None:  # the framework sets it
            route = getattr(scope.get("route"), "path", OTHER)
        waits = b"wait_ms=" in scope["query_string"]
        times = self._metrics.long_poll_times if waits else self._metrics.request_times
        times.observe(route, status or InternalError.status, perf_counter() - began)
