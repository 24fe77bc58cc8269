"""The application: all calls, their documentation, and what surrounds them."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
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
from controller.configuration import ServeSettings
from controller.http import (
    events,
    front_page,
    groups,
    marks,
    note_time,
    note_times,
    operations,
    problems,
    streams,
    writers,
)
from controller.http.bulk_forwarding import BulkForwarding
from controller.http.forwarding import Forwarding
from controller.http.head_calls import as_get
from controller.http.note_time import NoteTimeApp
from controller.http.note_times import NoteTimesApp
from controller.http.peers import Peers
from controller.http.timing import Timing
from controller.leases import HoldsShare
from controller.protocol import RecalledCall
from controller.service import Service
from tidegauge.errors import (
    BodyTooLargeError,
    ProblemError,
    UnauthenticatedError,
    UnavailableError,
)

if TYPE_CHECKING:
    from controller.tracing import Traces

_STARTING = UnavailableError("the service is reading its streams back")
_DESCRIPTION = """Event-time watermarks for partitioned streams.

Bodies say what they are: `Content-Type: application/json`, or what the call asks for; none is
taken compressed. A page of another site has to say so without a body, too.
HEAD is answered like GET, without the body.
Times are event time in ms; integers may be sent as JSON integers or decimal strings.
Errors are RFC 9457 problem documents with a stable `code`.
"""


def create_app(
    settings: ServeSettings, *, address: str = "", certificate: Certificate | None = None
) -> "ControllerApp":
    """Make the application; its lifespan opens and closes the database.

    ``address`` is where other controllers of the same database reach this one, ``certificate``
    what it shows them, which is read again when it is renewed.
    """
    guard = Guard(settings.tokens)
    authorities = None if settings.peer_ca is None else Authorities(settings.peer_ca)
    looks = [one.look for one in (guard, authorities, certificate) if one is not None]
    service = Service(settings, address=address)
    traces = _begin_traces() if settings.traces else None

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        watching = asyncio.create_task(watch(*looks), name="reading files again")
        service.tasks.append(watching)
        await service.begin()
        try:
            yield
        finally:
            watching.cancel()
            await whole.aclose()
            await service.close()
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
    app.state.service = service
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
    whole = ControllerApp(app, service, guard, trusted=trusted)  # the lifespan closes it, too
    return whole


def _begin_traces() -> "Traces":
    from controller.tracing import Traces  # noqa: PLC0415 (needs an extra)

    return Traces()


def _openapi(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        from controller.http.documentation import document  # noqa: PLC0415 (loads pandas, where it is)

        app.openapi_schema = document(
            app, [*note_time.documentation.routes, *note_times.documentation.routes]
        )
    return app.openapi_schema


class ControllerApp:
    """Who asks; then the hot paths, then the framework; bodies are bounded for all.

    Parameters
    ----------
    app
        Everything but the hot paths.
    service
        What both ask.
    guard
        Tells who asks.
    trusted
        Knows whose certificates are good among the other controllers.
    """

    def __init__(
        self,
        app: ASGIApp,
        service: Service,
        guard: Guard,
        *,
        trusted: ssl.SSLContext | None,
    ) -> None:
        self.service = service
        self._app = app
        self._guard = guard
        self._note_time = NoteTimeApp(service, guard)
        self._note_times = NoteTimesApp(service)
        self._timing = Timing(service.metrics)
        self._limit = service.settings.max_body_bytes
        self._peers: Peers | None = None
        self._dispatch: ASGIApp = self._answer
        if isinstance(service.holding, HoldsShare):
            self._peers = _peers(service.holding, trusted)
            forwarding = _forwarding(self._answer, service, service.holding, self._peers)
            self._dispatch = partial(self._timing.call_elsewhere, forwarding)

    async def aclose(self) -> None:
        """Close the connections to other controllers."""
        if self._peers is not None:
            await self._peers.aclose()

    def recall(self, scope: Scope) -> RecalledCall | None:
        """Say what requests like this one ask for, if it is a report."""
        if not self.service.started or not self._note_time.serves(scope["path"]):
            return None
        return self._note_time.recall(scope)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope = as_get(scope)
        if _announced_length(scope) > self._limit:
            too_large = BodyTooLargeError(self._limit)
            await self._timing.call(partial(_refuse, too_large), scope, receive, send)
            return
        try:
            scope["user"] = self._guard.identify(scope["path"], scope["headers"])
        except UnauthenticatedError as error:
            await self._timing.call(partial(_refuse, error), scope, receive, send)
            return
        if not self.service.started and scope["path"] not in OPEN_PATHS:
            await self._timing.call(partial(_refuse, _STARTING), scope, receive, send)
            return
        await self._dispatch(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._note_time.serves(scope["path"]):
            await self._timing.call_hot(self._note_time, scope, receive, send)
        elif self._note_times.serves(scope["path"]):
            await self._timing.call_hot(self._note_times, scope, receive, send)
        else:
            await self._timing.call(self._call_framework, scope, receive, send)

    async def _call_framework(self, scope: Scope, receive: Receive, send: Send) -> None:
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


def _peers(holding: HoldsShare, trusted: ssl.SSLContext | None) -> Peers:
    return Peers(holding.until_gone, holding.closing.wait, trusted=trusted)


def _forwarding(app: ASGIApp, service: Service, holding: HoldsShare, peers: Peers) -> ASGIApp:
    """Put the way to other holders in front of an application."""
    one = Forwarding(app, service, holding, peers)
    many = BulkForwarding(app, service, one, peers)

    async def forwarding(scope: Scope, receive: Receive, send: Send) -> None:
        chosen = many if many.serves(scope["path"]) else one
        await chosen(scope, receive, send)

    return forwarding


async def _refuse(error: ProblemError, _scope: Scope, _receive: Receive, send: Send) -> None:
    await problems.send_problem(send, error)


def _announced_length(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() else 0
    return 0
