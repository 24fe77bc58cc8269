"""How routes are declared: strict about the caller and the parameters.

What a caller needs is found once, when a route is declared, so that one that is not listed
in `controller.access.NEEDS` keeps the service from starting.
"""

import base64
from asyncio import CancelledError
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, NamedTuple, TypeVar

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.routing import APIRoute

from controller.access.callers import Caller, log_done, log_refused
from controller.access.limits import Limits
from controller.access.needs import NEEDS, Need
from controller.clocks import Clocks
from controller.commit.sequencer import Sequencer
from controller.commit.waiting import WaitingRoom
from controller.database import Database
from controller.groups import GroupCreation, Groups
from controller.http.messages.decoding import read_json
from controller.http.messages.headers import Headers, check_json, check_page
from controller.listing import Listing
from controller.overview import Overview
from controller.process import Process
from controller.streams.registry import Registry
from controller.streams.stream import StreamState
from tidegauge.errors import ForbiddenError, InvalidRequestError, OutcomeUnknownError
from tidegauge.event_time import END_OF_TIME, parse_event_time
from tidegauge.names import StreamName
from tidegauge.wire.values import Between, Integer, Name

_T = TypeVar("_T")
PARTS = "tidegauge.parts"
"""In the scope of a request: the `Parts` of the tenure in which it came."""


class StrictRequest(Request):
    """A request whose JSON is read as that of the hot paths is."""

    @classmethod
    def of(cls, request: Request) -> "StrictRequest":
        """Make a request strict; what was read of its body stays read."""
        return request if isinstance(request, cls) else cls(request.scope, request.receive)

    async def json(self) -> Any:  # noqa: ANN401 (JSON)
        """Read the body; raises `InvalidRequestError`."""
        return read_json(await self.body())


class StrictRoute(APIRoute):
    """A route that refuses callers without the role, unknown parameters, and bodies of other types.

    What operators did is logged with their name, and what was refused since somebody is none.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Check first, then handle."""
        handle = super().get_route_handler()
        known = _query_names(self.dependant)
        (method,) = list(self.methods or [])
        need = NEEDS[f"{method} {self.path_format}"]
        checks = self._checks_of_headers(method)

        async def strict(given: Request) -> Response:
            request = StrictRequest.of(given)
            caller: Caller = request.scope["user"]
            try:
                need.check(caller, request.path_params.get("scope", ""))
            except ForbiddenError:
                if need is Need.OPERATE:
                    log_refused(caller, request.scope)
                raise
            unknown = sorted(set(request.query_params) - known)
            if unknown:
                message = f"this call has no such parameter; it has {sorted(known)}"
                raise InvalidRequestError.of(unknown[0], message)
            for check in checks:
                check(request.scope["headers"])
            try:
                response = await handle(request)
            except (OutcomeUnknownError, CancelledError):
                if need is Need.OPERATE:  # it may have been done, or will be
                    log_done(caller, OutcomeUnknownError.status, request.scope)
                raise
            if need is Need.OPERATE:
                log_done(caller, response.status_code, request.scope)
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


def _query_names(dependant: Any) -> set[str]:  # noqa: ANN401 (FastAPI's description of a route)
    names = {param.alias for param in dependant.query_params}
    return names.union(*(_query_names(one) for one in dependant.dependencies))


def router_of(tag: str, route_class: type[APIRoute] = StrictRoute) -> APIRouter:
    """Make a router whose operations are called as their functions are.

    Generated clients have methods of these names.
    """
    return APIRouter(
        route_class=route_class,
        tags=[tag],
        generate_unique_id_function=lambda route: route.name,
    )


# Dependencies are coroutines, since FastAPI calls functions in a thread, which takes longer.


async def get_caller(request: Request) -> Caller:
    """Return who asks."""
    caller: Caller = request.scope["user"]
    return caller


async def get_process(request: Request) -> Process:
    """Return what stays of the controller while tenures come and go."""
    process: Process = request.app.state.process
    return process


def _part(name: str) -> Any:  # noqa: ANN401 (a parameter's default)
    """Depend on one of the `Parts` of the tenure in which the request came."""

    async def get(request: Request) -> Any:  # noqa: ANN401 (the type is the parameter's)
        return getattr(request.scope[PARTS], name)

    return Depends(get)


CallerOf = Annotated[Caller, Depends(get_caller)]
ClocksOf = Annotated[Clocks, _part("clocks")]
DatabaseOf = Annotated[Database, _part("database")]
GroupCreationOf = Annotated[GroupCreation, _part("group_creation")]
GroupsOf = Annotated[Groups, _part("groups")]
LimitsOf = Annotated[Limits, _part("limits")]
OverviewOf = Annotated[Overview, _part("overview")]
ListingOf = Annotated[Listing, _part("listing")]
ProcessOf = Annotated[Process, Depends(get_process)]
RegistryOf = Annotated[Registry, _part("registry")]
SequencerOf = Annotated[Sequencer, _part("sequencer")]
WaitingOf = Annotated[WaitingRoom, _part("waiting")]


ScopeName = Annotated[Name, Path(description="Scope of the stream.")]
NameInScope = Annotated[Name, Path(description="Name of the stream in its scope.")]
SegmentNumber = Annotated[Integer, Path(description="Number of the segment.")]
TransactionId = Annotated[str, Path(description="As begin answered.")]


async def get_stream(
    registry: RegistryOf,
    scope: ScopeName,
    stream: NameInScope,
    stream_id: Annotated[
        str | None,
        Query(description="Answer 409 `stream_replaced` if the stream is another one."),
    ] = None,
) -> StreamState:
    """Find the stream that a path names."""
    return registry.get(StreamName(scope, stream), stream_id)


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


def write_cursor(last: str) -> str:
    """Make the opaque cursor of the page after its last entry."""
    return base64.urlsafe_b64encode(last.encode()).decode()


def read_cursor(cursor: str | None, parse: Callable[[str], _T]) -> _T | None:
    """Read the last entry before a page back; None where a list begins."""
    if cursor is None:
        return None
    try:
        return parse(base64.b64decode(cursor, altchars=b"-_", validate=True).decode())
    except ValueError as error:
        message = "is not a cursor of this list; send one from an answer, as it is"
        raise InvalidRequestError.of("cursor", message) from error


class WallSpan(NamedTuple):
    """A span of wall clock that a query names, ms; the end does not belong to it."""

    since_ms: int
    until_ms: int


def _wall_span(
    since: Annotated[
        str | None,
        Query(
            description="Wall clock: ms, or RFC 3339 with a zone; left out: from the first on."
        ),
    ] = None,
    until: Annotated[
        str | None, Query(description="Wall clock, as `since`; left out: up to the last.")
    ] = None,
) -> WallSpan:
    span = WallSpan(_wall_ms("since", since, 0), _wall_ms("until", until, END_OF_TIME))
    if span.until_ms <= span.since_ms:
        end = "the end of time" if until is None else until
        raise InvalidRequestError.of("until", f"{end} is not after since, which is {since}")
    return span


def _wall_ms(name: str, given: str | None, default: int) -> int:
    try:
        return default if given is None else parse_event_time(given)
    except ValueError as error:
        raise InvalidRequestError.of(name, str(error)) from error


WallSpanOf = Annotated[WallSpan, Depends(_wall_span)]
WaitMs = Annotated[
    Integer, Between(0, 30_000), Query(description="Maximum wait for something new, ms.")
]


def stream_facts(state: StreamState) -> dict[str, Any]:
    """Return what every answer about a stream carries."""
    return {
        "stream_id": state.identity.stream_id,
        "watermark": state.watermark,
        "final": state.final,
    }
