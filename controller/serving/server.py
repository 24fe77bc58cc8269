"""Running the service: uvicorn, signals, and what it says at its start."""

import gc
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from math import inf
from time import monotonic
from types import FrameType

import uvicorn

from controller.access import Certificate
from controller.configuration import ServeSettings
from controller.http.app import ControllerApp, create_app
from controller.logs.setup import configure_logging
from controller.serving.exposure import check_exposure
from controller.serving.listener import BACKLOG, listen, reachable, show_address
from controller.serving.open_files import allow_open_files
from controller.serving.protocol import KnownHeads, RecallingProtocol

_GRACE_S = 10


class _Server(uvicorn.Server):
    """Stops quickly, releasing long polls at once, and quietly, a signal being no failure."""

    def __init__(self, config: uvicorn.Config, app: ControllerApp) -> None:
        super().__init__(config)
        self._service = app.service
        self._delay_s = app.service.settings.shutdown_delay_ms / 1_000
        self._stop_at = inf

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Be ready no longer, and stop when those who probe have had time to notice.

        A second signal ends the process as if nobody had handled it: what was answered is
        durable, and nothing else has to be done.
        """
        if self.should_exit:
            signal.signal(sig, signal.SIG_DFL)
            signal.raise_signal(sig)
        self._service.health.stopping = True
        self._stop_at = min(self._stop_at, monotonic() + self._delay_s)
        super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        """Say whether to stop, ten times a second."""
        asked = await super().on_tick(counter)
        is_time = self.force_exit or monotonic() >= self._stop_at
        return self._service.failed or (asked and is_time)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer who waits, then stop."""
        self._service.begin_to_end()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at a signal; unlike uvicorn's own, do not die of it afterwards."""
        former = {
            one: signal.signal(one, self.handle_exit) for one in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for one, handler in former.items():
                signal.signal(one, handler)


def serve(settings: ServeSettings) -> None:
    """Serve until SIGTERM or Ctrl-C.

    Raises
    ------
    ExposedError
        If strangers could reach it, and nobody said that they may.
    TokenFileError, CertificateError
        If a file cannot be used.
    DatabaseInUseError
        If another process serves the database.
    DatabaseUnusableError
        If the database cannot be served.
    AddressUnusableError
        If nobody can listen there, since the address is taken, or is none.
    """
    configure_logging(settings.log_level, settings.log_format)
    check_exposure(settings)
    allow_open_files(settings.max_long_polls)
    certificate = _certificate(settings)
    with listen(settings.host, settings.port) as listener:
        host, port = listener.getsockname()[:2]
        scheme = "http" if certificate is None else "https"
        here = show_address(reachable(host), port)
        address = settings.advertise_url or f"{scheme}://{here}"
        app = create_app(settings, address=address, certificate=certificate)
        print(f"database {app.service.database.name}", flush=True)  # noqa: T201
        serving = f"serving  {scheme}://{show_address(host, port)}  (docs: /docs)"
        app.service.on_start = partial(print, serving, flush=True)
        config = uvicorn.Config(
            app,
            loop="uvloop",
            http=partial(  # type: ignore[arg-type]
                RecallingProtocol,
                KnownHeads(app, longest_body=settings.max_body_bytes),
                max_head_bytes=settings.max_head_bytes,
            ),
            ws="none",
            proxy_headers=False,
            ssl_context_factory=None if certificate is None else lambda *_: certificate.context,
            access_log=False,
            log_config=None,
            log_level="warning",
            lifespan="on",
            timeout_graceful_shutdown=_GRACE_S,
            backlog=BACKLOG,
        )
        rest_collector()
        server = _Server(config, app)
        server.run(sockets=[listener])
        if not server.started or app.service.failed:
            msg = "the service could not start; its log says why"
            raise SystemExit(msg)


def _certificate(settings: ServeSettings) -> Certificate | None:
    if settings.tls_certificate is None:
        return None
    return Certificate(settings.tls_certificate, settings.tls_key)


def rest_collector() -> None:
    """Look for garbage rarely: nearly all there is lives long, and looking stops everything."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(500_000, 5, 50)
