"""What all calls with reports share: each report is counted with what came of it.

Those that consist of reports are the hot paths, answered in front of the framework; others may
carry one along.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine
from typing import Any, ClassVar

from fastapi import Request, Response
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from controller.commit.batch import Batch
from controller.commit.sequencer import Sequencer
from controller.configuration import ServeSettings
from controller.http.messages.plain import send_json
from controller.http.messages.problems import problem_of, send_problem
from controller.http.routing import StrictRequest, StrictRoute
from controller.metrics.counters import ACCEPTED, Metrics
from controller.streams.registry import Registry
from tidegauge import errors


class Reports(ABC):
    """The reports of one request on their way through a batch; by default there is one."""

    refused: Collection[errors.ProblemError] = ()
    """Why some were refused, while the call was not."""

    def __len__(self) -> int:
        return 1

    @abstractmethod
    def decide(self, batch: Batch) -> None:
        """Apply the reports; raises a `ProblemError` if the call is refused for it."""

    @abstractmethod
    def answer(self) -> bytes:
        """Return what is durable now."""


class ReportsApp(ABC):
    """Answers a call that consists of reports, without a framework in between."""

    route: ClassVar[str]

    def __init__(
        self,
        registry: Registry,
        sequencer: Sequencer,
        metrics: Metrics,
        settings: ServeSettings,
    ) -> None:
        self._registry = registry
        self._sequencer = sequencer
        self._metrics = metrics
        self._max_body_bytes = settings.max_body_bytes
        self._max_report_bytes = settings.max_report_bytes

    @abstractmethod
    def serves(self, path: str) -> bool:
        """Return whether a path is this call's."""

    @abstractmethod
    async def _read(self, scope: Scope, receive: Receive) -> Reports:
        """Read a request; raises `ProblemError`."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Apply the reports of one request, and count them."""
        tally = self._metrics.report_tally
        count = 1  # if it cannot be read, nobody knows how many there are
        try:
            reports = await self._read(scope, receive)
            count = len(reports)
            answer = await self._sequencer.submit(reports.decide, reports.answer)
        except ClientDisconnect:
            raise  # nobody is there to be answered
        except errors.MethodNotAllowedError as error:  # no reports
            await send_problem(send, error)
        except errors.ProblemError as error:
            tally[error.code] += count
            await send_problem(send, error)
        except Exception:
            defect = errors.InternalError(f"POST {scope['path']}")
            tally[defect.code] += count
            await send_problem(send, defect)
            raise
        else:
            if reports.refused:  # nearly never: a single report does not pay for the search
                tally.update(problem.code for problem in reports.refused)
            tally[ACCEPTED] += count - len(reports.refused)
            await send_json(send, answer)


class ReportingRoute(StrictRoute):
    """A route of calls that may carry a report along.

    They carry one as ``time`` of the body; those that take no JSON, as ``note_time`` of the query.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Handle, then count."""
        handle = super().get_route_handler()

        async def carries_report(request: Request) -> bool:
            if self.body_field is None:
                return "note_time" in request.query_params
            try:
                body = await request.json()
            except (errors.BodyTooLargeError, ClientDisconnect, errors.InvalidRequestError):
                return False  # what cannot be read is not known to have a time
            return isinstance(body, dict) and body.get("time") is not None

        async def counted(given: Request) -> Response:
            request = StrictRequest.of(given)
            tally = request.app.state.process.metrics.report_tally
            try:
                response = await handle(request)
            except ClientDisconnect:
                raise  # it did not say all that it would have said
            except Exception as error:
                problem = problem_of(request, error)
                # The rest of a body that is too large may never come.
                if not isinstance(problem, errors.BodyTooLargeError) and await carries_report(
                    request
                ):
                    tally[problem.code] += 1
                raise
            if await carries_report(request):
                tally[ACCEPTED] += 1
            return response

        return counted
