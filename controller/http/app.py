"""The application: all calls, their documentation, and what surrounds them."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controller.access.changes import watch
from controller.access.encryption import Authorities, Certificate
from controller.access.guard import Guard
from controller.access.needs import DOCUMENTATION_ASSETS, OPEN_PATHS
from controller.cluster import SharedOwnership
from controller.configuration import ServeSettings
from controller.database import Database
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
    transactions,
    writers,
)
from controller.http.explaining import Explaining
from controller.http.forwarding.bulk import BulkForwarding
from controller.http.forwarding.one import Forwarding
from controller.http.forwarding.peers import ROUTE, Peers
from controller.http.messages import problems
from controller.http.messages.headers import check_announced, check_host, check_origin
from controller.http.messages.problems import send_problem
from controller.http.messages.scopes import as_get
from controller.http.routing import operation_id
from controller.http.timing import OTHER, Timing
from controller.process import Process
from tidegauge.errors import BodyTooLargeError, ProblemError, UnavailableError

_STARTING = UnavailableError("the service is reading its streams back")
_DESCRIPTION = """Event-time watermarks for partitioned streams.

Send `Content-Type: application/json` with a body, or the type that the call names; compressed bodies
are refused. A page of another site must send it without a body, too.
HEAD returns the same as GET, without the body.
Times are event time in ms; send integers as JSON integers or decimal strings.
Errors are RFC 9457 problem documents with a stable `code`.
"""


def create_app(  # noqa: PLR0913 (what a test may replace)
    settings: ServeSettings,
    *,
    address: str = "",
    certificate: Certificate | None = None,
    checks_host: bool = False,
    database: Database | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
) -> "ControllerApp":
    """Make the application; its lifespan starts it, ends it and closes the database.

    ``address`` is where other controllers of the same database reach this one, ``certificate``
    what it shows them, which is read again when it is renewed. ``checks_host``: only a caller by
    a name of this machine is answered, and no page of another origin changes anything.
    ``database`` and ``transport`` replace what the settings name, and the sockets to other
    controllers.
    """
    guard = Guard(settings.tokens)
    authorities = None if settings.peer_ca is None else Authorities(settings.peer_ca)
    checks = [one.check for one in (guard, authorities, certificate) if one is not None]
    parts = compose(settings, address=address, database=database)
    process = Process(parts)
    traces = None
    if settings.traces:
        from controller.metrics.tracing import Traces  # noqa: PLC0415 (needs an extra)

        traces = Traces()

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        watching = asyncio.create_task(watch(*checks), name="reading files again")
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
        generate_unique_id_function=operation_id,
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
    routers += [front_page.router, writers.reporting, events.reporting]
    routers += [transactions.router, transactions.reporting]
    for router in routers:
        app.include_router(router)
    app.include_router(front_page.documentation)
    assets = StaticFiles(packages=[("fastapi_offline", "static")])
    app.mount(DOCUMENTATION_ASSETS, assets)
    problems.install(app, [route for router in routers for route in router.routes])
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    trusted = None if authorities is None else authorities.context
    whole = ControllerApp(  # the lifespan closes it, too
        app, process, guard, trusted=trusted, transport=transport, checks_host=checks_host
    )
    app.state.explaining = Explaining(
        parts.registry, parts.sequencer, parts.ownership, whole.peers
    )
    return whole


def _openapi(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        from controller.http.documentation import document  # noqa: PLC0415 (loads pandas, where it is)

        hot = [*note_time.documentation.routes, *note_times.documentation.routes]
        app.openapi_schema = document(app, hot)
    return app.openapi_schema


class ControllerApp:
    """Checks of the caller and its head; then the hot paths, the framework, or another controller."""

    def __init__(  # noqa: PLR0913 (what it is made of)
        self,
        app: ASGIApp,
        process: Process,
        guard: Guard,
        *,
        trusted: ssl.SSLContext | None,
        transport: httpx.AsyncBaseTransport | None,
        checks_host: bool,
    ) -> None:
        self.process = process
        self.parts = parts = process.parts
        self._app = app
        self._guard = guard
        self._timing = Timing(self._answer, parts.metrics)
        self._limit = limit = parts.settings.max_body_bytes
        intake = parts.registry, parts.sequencer, parts.metrics, parts.settings
        self._hot = note_time.NoteTimeApp(*intake), note_times.NoteTimesApp(*intake)
        self._checks_host = checks_host
        self.peers: Peers | None = None
        self._dispatch: ASGIApp = self._answer_here
        ownership = parts.ownership
        if isinstance(ownership, SharedOwnership):
            self.peers = peers = Peers(ownership, trusted=trusted, transport=transport)
            one = Forwarding(self._answer_here, ownership, peers, max_body_bytes=limit)
            self._dispatch = BulkForwarding(one)

    async def aclose(self) -> None:
        """Close the connections to other controllers."""
        if self.peers is not None:
            await self.peers.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        await self._timing(as_get(scope), receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            # What can be refused is, before anything of a body came.
            if self._checks_host:
                check_host(scope["headers"])
                check_origin(scope)
            check_announced(scope, self._limit)
            scope["user"] = self._guard.identify(scope["path"], scope["headers"])
            if not self.parts.health.started and scope["path"] not in OPEN_PATHS:
                raise _STARTING
        except ProblemError as error:
            scope[ROUTE] = OTHER
            await send_problem(send, error)
            return
        await self._dispatch(scope, receive, send)

    async def _answer_here(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        for hot in self._hot:
            if hot.serves(path):
                scope[ROUTE] = hot.route
                await hot(scope, receive, send)
                return
        scope[ROUTE] = None  # the framework sets it
        size = 0

        async def bounded() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self._limit:
                raise BodyTooLargeError(self._limit)
            return message

        await self._app(scope, bounded, send)
