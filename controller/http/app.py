"""The application: all calls, their documentation, and what surrounds them."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controller.access import (
    DOCUMENTATION_ASSETS,
    OPEN_PATHS,
    Authorities,
    Certificate,
    Guard,
    watch,
)
from controller.cluster import SharedOwnership
from controller.configuration import ServeSettings
from controller.factory import compose
from controller.http import front_page
from controller.http.calls import (
    events,
    groups,
    marks,
    note_time,
    note_times,
    operations,
    streams,
    writers,
)
from controller.http.calls.note_time import NoteTimeApp
from controller.http.calls.note_times import NoteTimesApp
from controller.http.forwarding.bulk import BulkForwarding
from controller.http.forwarding.one import Forwarding
from controller.http.forwarding.peers import ROUTE, Peers
from controller.http.messages import problems
from controller.http.messages.head_calls import as_get
from controller.http.messages.hosts import check_host
from controller.http.messages.plain import check_announced
from controller.http.messages.problems import send_problem
from controller.http.timing import OTHER, Timing
from controller.process import Process
from tidegauge.errors import (
    BodyTooLargeError,
    ProblemError,
    UnavailableError,
)

if TYPE_CHECKING:
    from controller.metrics.tracing import Traces

_STARTING = UnavailableError("the service is reading its streams back")
_DESCRIPTION = """Event-time watermarks for partitioned streams.

Bodies say what they are: `Content-Type: application/json`, or what the call asks for; none is
taken compressed. A page of another site has to say so without a body, too.
HEAD is answered like GET, without the body.
Times are event time in ms; integers may be sent as JSON integers or decimal strings.
Errors are RFC 9457 problem documents with a stable `code`.
"""


def create_app(
    settings: ServeSettings,
    *,
    address: str = "",
    certificate: Certificate | None = None,
    checks_host: bool = False,
) -> "ControllerApp":
    """Make the application; its lifespan opens and closes the database.

    ``address`` is where other controllers of the same database reach this one, ``certificate``
    what it shows them, which is read again when it is renewed. ``checks_host``: only who calls by
    a name of this machine is answered.
    """
    guard = Guard(settings.tokens)
    authorities = None if settings.peer_ca is None else Authorities(settings.peer_ca)
    looks = [one.look for one in (guard, authorities, certificate) if one is not None]
    parts = compose(settings, address=address)
    process = Process(parts)
    traces = _begin_traces() if settings.traces else None

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        watching = asyncio.create_task(watch(*looks), name="reading files again")
        parts.health.tasks.append(watching)
        await process.begin()
        try:
            yield
        finally:
            watching.cancel()
            await whole.aclose()
            await process.close()
            if traces is not None:
                await asyncio.to_thread(traces.end)

    app = FastAPI(
        docs_url=None,
        redoc_url=None,
        title="Tidegauge",
        version="1",
        description=_DESCRIPTION,
        lifespan=lifespan,
        redirect_slashes=False,
        telemetry={
            "auto_configure": False,
            "exclude": lambda scope: scope["path"] in OPEN_PATHS,
            "logs": False,
            "metrics": False,
            "operation_spans": False,
            "tracer_provider": None if traces is None else traces.provider,
            "tracing": traces is not None,
        },
    )
    app.state.parts = parts
    routers = [one.router for one in (streams, writers, marks, events, groups, operations)]
    routers.append(front_page.router)
    routers += [one.reporting for one in (writers, events)]
    for router in routers:
        app.include_router(router)
    app.include_router(front_page.documentation)
    assets = StaticFiles(packages=[("fastapi_offline", "static")])
    app.mount(DOCUMENTATION_ASSETS, assets)
    problems.install(app, [route for router in routers for route in router.routes])
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    trusted = None if authorities is None else authorities.context
    whole = ControllerApp(  # the lifespan closes it, too
        app, process, guard, trusted=trusted, checks_host=checks_host
    )
    return whole


def _begin_traces() -> "Traces":
    from controller.metrics.tracing import Traces  # noqa: PLC0415 (needs an extra)

    return Traces()


def _openapi(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        from controller.http.documentation import document  # noqa: PLC0415 (loads pandas, where it is)

        app.openapi_schema = document(
            app, [*note_time.documentation.routes, *note_times.documentation.routes]
        )
    return app.openapi_schema


class ControllerApp:
    """Who asks, and whether by its head; then the hot paths, the framework, or another controller.

    Parameters
    ----------
    app
        Everything but the hot paths.
    process
        What both ask, with its start and end.
    guard
        Tells who asks.
    trusted
        Knows whose certificates are good among the other controllers.
    checks_host
        Whether only who calls by a name of this machine is answered.
    """

    def __init__(
        self,
        app: ASGIApp,
        process: Process,
        guard: Guard,
        *,
        trusted: ssl.SSLContext | None,
        checks_host: bool,
    ) -> None:
        self.process = process
        self.parts = parts = process.parts
        self._app = app
        self._guard = guard
        self._timing = Timing(self._answer, parts.metrics)
        self._limit = limit = parts.settings.max_body_bytes
        intake = parts.registry, parts.sequencer, parts.metrics
        limit_each = parts.settings.max_report_bytes
        self._hot = (
            NoteTimeApp(*intake, max_report_bytes=limit_each),
            NoteTimesApp(*intake, max_body_bytes=limit, max_report_bytes=limit_each),
        )
        self._checks_host = checks_host
        self._peers: Peers | None = None
        self._dispatch: ASGIApp = self._answer_here
        if isinstance(parts.ownership, SharedOwnership):
            self._peers = _peers(parts.ownership, trusted)
            self._dispatch = _forwarding(
                self._answer_here, parts.ownership, self._peers, max_body_bytes=limit
            )

    async def aclose(self) -> None:
        """Close the connections to other controllers."""
        if self._peers is not None:
            await self._peers.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        await self._timing(as_get(scope), receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._check_head(scope)
        except ProblemError as error:
            scope[ROUTE] = OTHER
            await send_problem(send, error)
            return
        await self._dispatch(scope, receive, send)

    def _check_head(self, scope: Scope) -> None:
        """Refuse what can be refused before anything of a body came; tell who asks."""
        if self._checks_host:
            check_host(scope["headers"])
        check_announced(scope, self._limit)
        scope["user"] = self._guard.identify(scope["path"], scope["headers"])
        if not self.parts.health.started and scope["path"] not in OPEN_PATHS:
            raise _STARTING

    async def _answer_here(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        for hot in self._hot:
            if hot.serves(path):
                scope[ROUTE] = hot.route
                await hot(scope, receive, send)
                return
        scope[ROUTE] = None  # the framework tells
        await self._app(scope, self._bounded(receive), send)

    def _bounded(self, receive: Receive) -> Receive:
        size = 0

        async def bounded() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self._limit:
                raise BodyTooLargeError(self._limit)
            return message

        return bounded


def _peers(ownership: SharedOwnership, trusted: ssl.SSLContext | None) -> Peers:
    return Peers(ownership.until_gone, ownership.closing.wait, trusted=trusted)


def _forwarding(
    app: ASGIApp, ownership: SharedOwnership, peers: Peers, *, max_body_bytes: int
) -> ASGIApp:
    """Put the way to other holders in front of an application."""
    one = Forwarding(app, ownership, peers, max_body_bytes=max_body_bytes)
    many = BulkForwarding(app, one, peers, max_body_bytes=max_body_bytes)

    async def forwarding(scope: Scope, receive: Receive, send: Send) -> None:
        chosen = many if many.serves(scope["path"]) else one
        await chosen(scope, receive, send)

    return forwarding
