"""Running the service: uvicorn, signals, and what it says at its start."""

import asyncio
import logging
import socket
import sys

import uvicorn

from controller.configuration import ServeSettings
from controller.http.app import ControllerApp, create_app

_BACKLOG = 2_048
_GRACE_S = 10


class _Server(uvicorn.Server):
    """Releases long polls as soon as it is told to stop, so that stopping is quick."""

    def __init__(self, config: uvicorn.Config, app: ControllerApp) -> None:
        super().__init__(config)
        self._app = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer who waits, then stop."""
        self._app.service.release_waiters()
        await super().shutdown(sockets)


def serve(settings: ServeSettings) -> None:
    """Serve until SIGTERM or Ctrl-C.

    Raises
    ------
    DatabaseInUseError
        If another process serves the database.
    DatabaseUnusableError
        If the database cannot be served.
    OSError
        If the address is taken.
    """
    logging.basicConfig(
        level=settings.log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
        stream=sys.stderr,
    )
    with socket.create_server(
        (settings.host, settings.port), backlog=_BACKLOG, reuse_port=False
    ) as listener:
        # Connections inherit it; without it an answer in two writes waits 40 ms for an ACK.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        app = create_app(settings)
        host, port = listener.getsockname()[:2]
        print(f"database {app.service.database.path}", flush=True)  # noqa: T201
        print(f"serving  http://{host}:{port}  (docs: /docs)", flush=True)  # noqa: T201
        config = uvicorn.Config(
            app,
            access_log=False,
            log_level="warning",
            lifespan="on",
            timeout_graceful_shutdown=_GRACE_S,
            backlog=_BACKLOG,
        )
        asyncio.run(_Server(config, app).serve(sockets=[listener]))
