"""Reports that come along with another call are counted like those that come alone."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from starlette.requests import ClientDisconnect

from controller.http.messages.problems import problem_of
from controller.http.routing import StrictRoute, get_service
from controller.metrics.counters import ACCEPTED
from tidegauge.errors import BodyTooLargeError


class ReportingRoute(StrictRoute):
    """A route of calls that may carry a report, which is counted with what came of it.

    They carry one as ``time`` of the body; those that take no JSON, as ``note_time`` of the query.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Handle, then count."""
        handle = super().get_route_handler()
        carries_report = _notes_time if self.body_field is None else _has_time

        async def count(request: Request, outcome: str) -> None:
            if await carries_report(request):
                get_service(request).metrics.report_tally[outcome] += 1

        async def counted(request: Request) -> Response:
            try:
                response = await handle(request)
            except ClientDisconnect:
                raise  # it did not say all that it would have said
            except Exception as error:
                problem = problem_of(request, error)
                if not isinstance(problem, BodyTooLargeError):  # its rest may never come
                    await count(request, problem.code)
                raise
            await count(request, ACCEPTED)
            return response

        return counted


async def _notes_time(request: Request) -> bool:
    return "note_time" in request.query_params


async def _has_time(request: Request) -> bool:
    """Whether a body has a time; one that cannot be read is not known to have any."""
    try:
        body = await request.json()
    except (BodyTooLargeError, ClientDisconnect, RecursionError, ValueError):
        return False
    return isinstance(body, dict) and body.get("time") is not None
