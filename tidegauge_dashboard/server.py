"""The process of the dashboard: a page, one web socket for each, and the check of who calls."""

import asyncio
import errno
import logging
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from ipaddress import ip_address
from urllib.parse import urlsplit

import uvicorn
from fastapi import FastAPI, WebSocket, WebSocketDisconnect
from fastapi.responses import FileResponse
from starlette.datastructures import Headers
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import PlainTextResponse
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidegauge.client.addresses import check_token, check_urls
from tidegauge.states import HELD_AFTER_MS
from tidegauge_dashboard.asking import Asking
from tidegauge_dashboard.connection import Page, Pages
from tidegauge_dashboard.feed import Feed
from tidegauge_dashboard.views import parse_view

_log = logging.getLogger(__name__)
_STATIC = files(__package__).joinpath("static")
_LOCAL_NAMES = frozenset({"localhost"})
ANY_NAME = "*"
_MOST_VIEW_BYTES = 32_768
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "cache-control": "no-cache",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


class ExposedDashboardError(ValueError):
    """The dashboard would show all streams to anybody on the network."""

    def __init__(self, host: str) -> None:
        self.host = host
        super().__init__(
            f"listening on {host} would show the streams to anybody who reaches it; pass "
            "--insecure if something else keeps strangers out"
        )


class PortTakenError(ValueError):
    """Something else listens there."""

    def __init__(self, port: int) -> None:
        self.port = port
        super().__init__(f"port {port} is taken; give --port")


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardSettings:
    """The settings of `tidegauge ui`.

    Attributes
    ----------
    url, token
        The service, and what is sent to it.
    shown_url
        Where people reach it, if elsewhere: it is shown, and commands go there.
    host, port
        Where to listen.
    names
        Further names by which browsers may call, of a proxy in front; `ANY_NAME` for all.
    insecure
        Listen beyond this machine.
    held_after_ms
        A stream counts as held once its watermark stands for so long, ms.
    """

    url: str
    token: str | None = None
    shown_url: str | None = None
    host: str = "127.0.0.1"
    port: int = 8787
    names: Sequence[str] = ()
    insecure: bool = False
    held_after_ms: int = HELD_AFTER_MS

    def check(self) -> None:
        """Refuse what cannot be, or would let strangers in; raises ``ValueError``."""
        check_urls(self.url)
        check_urls(self.shown_url or self.url)
        if self.token is not None:
            check_token(self.token)
        if not self.insecure and not _is_loopback(self.host):
            raise ExposedDashboardError(self.host)


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def create_app(settings: DashboardSettings) -> ASGIApp:
    """Make the application; it begins to ask the service when it is started."""
    settings.check()
    feed = Feed(Asking(settings.url, settings.token))
    pages = Pages(feed, held_after_ms=settings.held_after_ms, shown_url=settings.shown_url)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        feed.start()
        ticking = asyncio.create_task(pages.run())
        yield
        ticking.cancel()
        await feed.stop()

    app = FastAPI(lifespan=lifespan, openapi_url=None)
    app.mount("/static", StaticFiles(directory=str(_STATIC)))

    @app.get("/")
    async def index() -> FileResponse:
        return FileResponse(str(_STATIC.joinpath("index.html")))

    @app.get("/healthz")
    async def health() -> dict[str, object]:
        outage = feed.outage()
        return {
            "service": feed.asking.url,
            "outage": None if outage is None else outage.reason,
            "asked": dict(feed.asking.asked),
            "received_bytes": feed.asking.received_bytes,
        }

    @app.websocket("/socket")
    async def socket(connection: WebSocket) -> None:
        await connection.accept()
        page = pages.open()
        work = {
            asyncio.create_task(_send(connection, page)),
            asyncio.create_task(_receive(connection, page)),
        }
        try:
            done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
        finally:
            pages.close(page)
            for task in work:
                task.cancel()
        try:
            for task in done:
                await task
        except WebSocketDisconnect:
            _log.debug("a page was closed")
        except ValueError as error:
            await connection.close(1008, str(error)[:100])

    names = _LOCAL_NAMES | {name.lower() for name in settings.names}
    return GZipMiddleware(Guard(app, names), minimum_size=1_000)


async def _receive(connection: WebSocket, page: Page) -> None:
    """Read what the page shows; raises ``ValueError`` for what cannot be shown."""
    while True:
        page.show(parse_view(await connection.receive_text()))


async def _send(connection: WebSocket, page: Page) -> None:
    """Send what changed whenever it is the page's turn; a slow page misses some."""
    while True:
        await page.turn.wait()
        page.turn.clear()
        message = page.message()
        if message is not None:
            await connection.send_text(message)


class Guard:
    """Answers calls by a name of this process, and from its own pages.

    A page of another site can have its own name mean this machine, and may open a web socket to
    anywhere: the browser says for which page it calls, and by which name. An address is no name:
    nobody can have it mean another machine. Starlette's `TrustedHostMiddleware` takes a list of names only,
    so that it would refuse addresses; and it knows no origins.

    Parameters
    ----------
    names
        Those that ``Host`` may have beside addresses, with any port; `ANY_NAME` for all.
    """

    def __init__(self, app: ASGIApp, names: frozenset[str]) -> None:
        self._app = app
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse."""
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(Headers(scope=scope))
        if refusal is None:
            await self._app(scope, receive, _with_headers(send))
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": refusal[1]})
        else:
            status, text = refusal
            await PlainTextResponse(f"{text}\n", status)(scope, receive, send)

    def _refusal(self, headers: Headers) -> tuple[int, str] | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._may_call(host):
            return 421, f"{host!r} is not a name of this dashboard; add names with --name"
        if origin is not None and origin.partition("://")[2] != host:
            return 403, f"a page of {origin!r} may not call this dashboard"
        if (
            headers.get("sec-fetch-site") == "cross-site"
            and headers.get("sec-fetch-mode") != "navigate"
        ):
            return 403, "a page of another site may not call this dashboard"
        return None

    def _may_call(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:  # such as "["
            return False
        return ANY_NAME in self._names or name in self._names or _is_address(name)


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            more = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return sending


def run(settings: DashboardSettings) -> None:
    """Serve the dashboard until SIGTERM or Ctrl-C; raises ``ValueError`` for what cannot be."""
    app = create_app(settings)
    listener = listen(settings.host, settings.port)
    if settings.insecure and not _is_loopback(settings.host):
        _log.warning(
            "no authentication: anybody who reaches %s sees all streams", settings.host
        )
    shown = f"[{settings.host}]" if ":" in settings.host else settings.host
    print(f"dashboard http://{shown}:{settings.port}/  of {settings.url}", flush=True)  # noqa: T201
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=2,
        ws_max_size=_MOST_VIEW_BYTES,
    )
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])


def listen(host: str, port: int) -> socket.socket:
    """Listen there; raises `PortTakenError`, or ``OSError`` for what is no address of ours."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortTakenError(port) from error
        raise
