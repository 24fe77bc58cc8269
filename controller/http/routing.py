"""How routes are declared: strict about who asks and what they take.

What a caller needs is looked up once, when a route is declared, so that one that is not listed
in `controller.access.NEEDS` keeps the service from starting.
"""

from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial
from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute

from controller.access import NEEDS, Caller, Need, log_done, log_refused
from controller.commit.cancellation import Reason, until_hung_up
from controller.http.messages.head_calls import is_head
from controller.http.messages.media import Headers, check_json, check_page
from controller.http.messages.request_fields import request_fields
from controller.service import Service
from controller.streams.stream import StreamState
from tidegauge.errors import ForbiddenError, InvalidRequestError, OutcomeUnknownError
from tidegauge.names import StreamName
from tidegauge.wire.values import Between, Integer, Name


class StrictRoute(APIRoute):
    """A route that refuses who may not ask, unknown parameters, and bodies of other types.

    What operators did is logged with their name, and what was refused since somebody is none.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Check first, then handle."""
        handle = super().get_route_handler()
        known = _query_names(self.dependant)
        (method,) = list(self.methods or [])
        need = NEEDS[f"{method} {self.path_format}"]
        checks = self._checks_of_headers(method)

        async def strict(request: Request) -> Response:
            caller = get_caller(request)
            try:
                need.check(caller, request.path_params.get("scope", ""))
            except ForbiddenError:
                if need is Need.OPERATE:
                    log_refused(caller, request_fields(request.scope))
                raise
            unknown = sorted(set(request.query_params) - known)
            if unknown:
                message = f"this call has no such parameter; it has {sorted(known)}"
                raise InvalidRequestError.of(unknown[0], message)
            for check in checks:
                check(request.scope["headers"])
            try:
                response = await handle(request)
            except OutcomeUnknownError as error:
                if need is Need.OPERATE:  # it may have been done
                    log_done(caller, error.status, request_fields(request.scope))
                raise
            if need is Need.OPERATE:
                log_done(caller, response.status_code, request_fields(request.scope))
            if is_head(request.scope) and isinstance(response, StreamingResponse):
                response.body_iterator = _nothing()  # nobody would see what is read
            return response

        return strict

    def _checks_of_headers(self, method: str) -> list[Callable[[Headers], None]]:
        """Choose what headers have to pass; what takes other bodies than JSON checks for itself."""
        checks: list[Callable[[Headers], None]] = []
        if self.body_field is not None:
            checks.append(check_json)
        if method == "POST" and "requestBody" not in (self.openapi_extra or {}):
            checks.append(check_page)
        return checks


async def _nothing() -> AsyncIterator[bytes]:
    yield b""


def _query_names(dependant: Any) -> set[str]:  # noqa: ANN401 (FastAPI's description of a route)
    names = {param.alias for param in dependant.query_params}
    return names.union(*(_query_names(one) for one in dependant.dependencies))


def get_caller(request: Request) -> Caller:
    """Tell who asks."""
    caller: Caller = request.scope["user"]
    return caller


def get_service(request: Request) -> Service:
    """Find the service that the application serves."""
    service: Service = request.app.state.service
    return service


def get_hung_up(request: Request) -> Reason:
    """Give what returns once the caller has closed its connection."""
    return partial(until_hung_up, request.receive)


ServiceOf = Annotated[Service, Depends(get_service)]
CallerOf = Annotated[Caller, Depends(get_caller)]
HungUp = Annotated[Reason, Depends(get_hung_up)]


ScopeName = Annotated[Name, Path(description="Scope of the stream.")]
NameInScope = Annotated[Name, Path(description="Name of the stream in its scope.")]
SegmentNumber = Annotated[Integer, Path(description="Number of the segment.")]


def get_stream(
    service: ServiceOf,
    scope: ScopeName,
    stream: NameInScope,
    stream_id: Annotated[
        str | None,
        Query(description="Answer 409 `stream_replaced` if the stream is another one."),
    ] = None,
) -> StreamState:
    """Find the stream that a path names."""
    return service.stream(StreamName(scope, stream), stream_id)


StreamOf = Annotated[StreamState, Depends(get_stream)]
WriterName = Annotated[Name, Path(description="The writer's stable name.")]
Limit = Annotated[
    Integer,
    Between(1, 1_000),
    Query(
        description="At most so many; fewer where each has thousands of segments. A page is the last "
        "if its `cursor` is null."
    ),
]
Cursor = Annotated[str | None, Query(description="From the page before.")]
WaitMs = Annotated[
    Integer, Between(0, 30_000), Query(description="Wait so long for something new, ms.")
]


def stream_facts(state: StreamState) -> dict[str, Any]:
    """Give what every answer about a stream carries."""
    return {
        "stream_id": state.identity.stream_id,
        "watermark": state.watermark,
        "final": state.final,
    }
