"""The application: all calls, their documentation, and what surrounds them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controller.access.changes import watch
from controller.access.encryption import Certificate
from controller.access.guard import Guard
from controller.access.needs import DOCUMENTATION_ASSETS, PAGE_FILES, is_open
from controller.cluster import Right, open_right
from controller.commit.sequencer import UNCERTAIN
from controller.configuration import ServeSettings
from controller.factory import Parts
from controller.http import front_page
from controller.http.calls import (
    events,
    groups,
    holds,
    marks,
    note_time,
    note_times,
    operations,
    streams,
    transactions,
    writers,
)
from controller.http.calls.reporting import ReportsApp
from controller.http.messages import problems
from controller.http.messages.headers import check_announced, check_host, check_origin
from controller.http.messages.problems import send_problem
from controller.http.routing import PARTS
from controller.http.timing import OTHER, ROUTE, Timing
from controller.metrics.health import READING
from controller.process import Process
from controller.tenure import Tenure
from tidegauge.client.addresses import DATABASE_HEADER
from tidegauge.errors import (
    BodyTooLargeError,
    ProblemError,
    StandsByError,
    UnavailableError,
)

_STARTING = UnavailableError(READING)
_NAMES_THE_DATABASE = DATABASE_HEADER.lower().encode()
_DESCRIPTION = """Event-time watermarks for partitioned streams.

Send `Content-Type: application/json` with a body, or the type that the call names; compressed bodies
are refused. A page of another site must send it without a body, too.
Times are event time in ms; send integers as JSON integers or decimal strings.
Errors are RFC 9457 problem documents with a stable `code`.
"""


def create_app(
    settings: ServeSettings,
    *,
    certificate: Certificate | None = None,
    checks_host: bool = False,
    right: Right | None = None,
) -> "ControllerApp":
    """Make the application; its lifespan starts it, ends it and closes the database.

    ``certificate`` is read again when it is renewed. ``checks_host``: only a caller by
    a name of this machine is answered, and no page of another origin changes anything.
    ``right`` replaces that to the database that the settings name.
    """
    guard = Guard(settings.tokens)
    checks = [one.check for one in (guard, certificate) if one is not None]
    process = Process(settings, right or open_right(settings))

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        watching = asyncio.create_task(watch(*checks), name="reading files again")
        process.supervise(watching)
        await process.begin()
        try:
            yield
        finally:
            watching.cancel()
            await process.close()

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
            "exclude": lambda scope: is_open(scope["path"]),
            "logs": False,
            "metrics": False,
            "operation_spans": False,
        },
    )
    app.state.process = process
    routers = [
        one.router for one in (streams, writers, marks, holds, events, groups, operations)
    ]
    routers += [front_page.router, writers.reporting, events.reporting]
    routers += [transactions.router, transactions.reporting]
    # As they are: `include_router` would make each route anew, for every application.
    for router in (*routers, front_page.documentation):
        app.router.routes.extend(router.routes)
    assets = StaticFiles(packages=[("fastapi_offline", "static")])
    app.mount(DOCUMENTATION_ASSETS, assets)
    app.mount(PAGE_FILES, front_page.PageFiles(directory=front_page.FILES))
    problems.install(app, app.routes)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return ControllerApp(app, process, guard, checks_host=checks_host)


def _openapi(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        from controller.http.documentation import document  # noqa: PLC0415 (loads pandas, where it is)

        hot = [*note_time.documentation.routes, *note_times.documentation.routes]
        app.openapi_schema = document(app, hot)
    return app.openapi_schema


def _is_of_the_process(path: str) -> bool:
    return is_open(path) or path == "/metrics"


async def _send_named(send: Send, identity: bytes, message: Message) -> None:
    """Send a part of an answer, of which the head names the database."""
    if identity and message["type"] == "http.response.start":
        message["headers"] = [*message["headers"], (_NAMES_THE_DATABASE, identity)]
    await send(message)


class _UncertainError(Exception):
    """What was read from memory may be old."""


class ControllerApp:
    """Checks of the caller and its head; then the hot paths and the framework, for the present tenure.

    It stays while tenures come and go. A controller that stands by answers for itself alone, and
    sends all other callers to the one that holds the database.
    """

    def __init__(
        self, app: ASGIApp, process: Process, guard: Guard, *, checks_host: bool
    ) -> None:
        self.process = process
        self._app = app
        self._guard = guard
        self._timing = Timing(self._answer, process.metrics)
        self._limit = process.settings.max_body_bytes
        self._checks_host = checks_host
        admits_all = process.settings.insecure and process.settings.tokens is None
        names = process.settings.browser_hosts.lower().replace(" ", "").split(",")
        self._names = tuple(filter(None, names)) if admits_all else None

    @property
    def parts(self) -> Parts:
        """What the present tenure is made of; there must be one."""
        assert self.process.tenure is not None  # noqa: S101 (see above)
        return self.process.tenure.parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "HEAD" and is_open(scope["path"]):
            scope = {**scope, "method": "GET"}  # the server leaves the body out
        await self._timing(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        tenure, path = self.process.tenure, scope["path"]
        if tenure is None or path == "/readyz":
            send = partial(_send_named, send, self.process.right.identity.encode())
        try:
            # What can be refused is, before anything of a body came.
            if self._checks_host:
                check_host(scope["headers"])
                check_origin(scope)
            elif self._names is not None:
                check_host(scope["headers"], self._names)
            check_announced(scope, self._limit)
            scope["user"] = self._guard.identify(path, scope["headers"])
            if tenure is not None and tenure.parts.health.started:
                await self._answer_in(tenure, scope, receive, send)
                return
            if not _is_of_the_process(path):
                raise _STARTING if self.process.is_taking_over else self._elsewhere(scope)
        except ProblemError as error:
            scope[ROUTE] = OTHER
            await send_problem(send, error)
            return
        await self._ask_framework(scope, receive, send)

    async def _answer_in(
        self, tenure: Tenure, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer by what a tenure has in memory.

        The race: this controller was paused, and another took over. A change was checked by its
        commit, so its answer is sent anyhow. All else was read from memory, refusals too; whether
        it may be shown is checked now that it was read.
        """
        scope[PARTS] = parts = tenure.parts
        reads = scope["method"] == "GET" and not _is_of_the_process(scope["path"])

        async def checked(message: Message) -> None:
            is_start = message["type"] == "http.response.start"
            if (
                is_start
                and (reads or 400 <= message["status"] < 500)
                and not parts.is_certain()
            ):
                raise _UncertainError
            await send(message)

        try:
            for hot in self._hot_paths(tenure):
                if hot.serves(scope["path"]):
                    scope[ROUTE] = hot.route
                    await hot(scope, receive, checked)
                    return
            await self._ask_framework(scope, receive, checked)
        except _UncertainError:
            await send_problem(send, UnavailableError(UNCERTAIN))

    def _hot_paths(self, tenure: Tenure) -> Sequence[ReportsApp]:
        if not tenure.hot_paths:
            parts, metrics = tenure.parts, self.process.metrics
            intake = parts.registry, parts.sequencer, metrics, parts.settings
            tenure.hot_paths = (
                note_time.NoteTimeApp(*intake),
                note_times.NoteTimesApp(*intake),
            )
        return tenure.hot_paths

    def _elsewhere(self, scope: Scope) -> ProblemError:
        """Return the answer of a controller that stands by: where the holder is, if it says so."""
        holder = self.process.right.holder
        if not holder:
            return UnavailableError(self.process.standby)
        path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
        query = scope["query_string"].decode("latin-1")
        return StandsByError(f"{holder}{path}?{query}" if query else f"{holder}{path}")

    async def _ask_framework(self, scope: Scope, receive: Receive, send: Send) -> None:
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
