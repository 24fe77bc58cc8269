"""Running the service: where it listens, whether strangers could reach it there, and how it ends."""

import gc
import logging
import resource
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address
from math import inf
from time import monotonic
from types import FrameType

import uvicorn

from controller.access.encryption import Certificate
from controller.configuration import ServeSettings
from controller.http.app import ControllerApp, create_app
from controller.logs.setup import configure_logging
from controller.serving.protocol import Protocol
from tidegauge.errors import TidegaugeError

_ALL = "0.0.0.0"  # noqa: S104 (whether that is safe is checked below)
_BACKLOG = 2_048
_GRACE_S = 10
_OTHER_FILES = 500
"""The service's own, and connections of calls that do not wait."""
_log = logging.getLogger(__name__)


class _Server(uvicorn.Server):
    """Stops quickly, releasing long polls at once, and quietly, a signal being no failure."""

    def __init__(self, config: uvicorn.Config, app: ControllerApp) -> None:
        super().__init__(config)
        self._process = app.process
        self._delay_s = app.process.settings.shutdown_delay_ms / 1_000
        self._stop_at = inf

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Report that the process is not ready, and stop once probes had time to notice.

        A second signal ends the process as if nobody had handled it: what was answered is
        durable, and nothing else has to be done.
        """
        if self.should_exit:
            signal.signal(sig, signal.SIG_DFL)
            signal.raise_signal(sig)
        self._process.stopping = True
        self._stop_at = min(self._stop_at, monotonic() + self._delay_s)
        super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        """Return whether to stop; called ten times a second."""
        asked = await super().on_tick(counter)
        is_time = self.force_exit or monotonic() >= self._stop_at
        return self._process.failed or (asked and is_time)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer the calls that wait, then stop."""
        self._process.begin_to_end()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at a signal; unlike uvicorn's own, do not die of it afterwards."""
        signals = signal.SIGINT, signal.SIGTERM
        former = {one: signal.signal(one, self.handle_exit) for one in signals}
        try:
            yield
        finally:
            for one, handler in former.items():
                signal.signal(one, handler)


def serve(settings: ServeSettings) -> None:
    """Serve until SIGTERM or Ctrl-C; what keeps it from starting is a `TidegaugeError`."""
    configure_logging(settings.log_level, settings.log_format)
    check_exposure(settings)
    _allow_open_files(settings.max_long_polls)
    certificate = None
    if settings.tls_certificate is not None:
        certificate = Certificate(settings.tls_certificate, settings.tls_key)
    with listen(settings.host, settings.port) as listener:
        host, port = listener.getsockname()[:2]
        scheme = "http" if certificate is None else "https"
        checks_host = is_for_this_machine(settings)
        app = create_app(settings, certificate=certificate, checks_host=checks_host)
        say: Callable[[str], None] = partial(print, flush=True)
        if settings.log_format == "json":  # a container has one log
            say = _log.info
        say(f"database {app.process.right.name}")
        url = f"{scheme}://{show_address(host, port)}"
        reached = settings.advertise_url or url
        app.process.on_stand_by = lambda awaited: say(f"standing by at {reached}: {awaited}")
        app.process.on_start = partial(say, f"serving  {url}  (docs: /docs)")
        config = uvicorn.Config(
            app,
            loop="uvloop",
            http=Protocol,
            ws="none",
            proxy_headers=False,
            ssl_context_factory=None if certificate is None else lambda *_: certificate.context,
            access_log=False,
            log_config=None,
            log_level="warning",
            lifespan="on",
            timeout_graceful_shutdown=_GRACE_S,
            backlog=_BACKLOG,
        )
        rest_collector()
        server = _Server(config, app)
        server.run(sockets=[listener])
        if not server.started or app.process.failed:
            msg = "the service could not start; its log says why"
            raise SystemExit(msg)


def _allow_open_files(long_polls: int) -> None:
    """Allow as many as the system lets us, and warn if so many long polls could use them up."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # a hard limit that says more than the system allows
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = long_polls + _OTHER_FILES
    if allowed != resource.RLIM_INFINITY and allowed < needed:
        _log.warning(
            "%d open files are too few for max_long_polls of %d: "
            "allow %d (ulimit -Hn), or long polls may keep everybody out",
            allowed,
            long_polls,
            needed,
        )


def rest_collector() -> None:
    """Collect garbage rarely: nearly all objects live long, and a collection stops everything."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(500_000, 5, 50)


class AddressUnusableError(TidegaugeError):
    """Nobody can listen there."""

    def __init__(self, where: str, reason: str) -> None:
        self.where = where
        self.reason = reason
        super().__init__(f"cannot listen on {where}: {reason}")


class ExposedError(TidegaugeError):
    """The service would let anybody on the network do everything."""

    def __init__(self, host: str) -> None:
        self.host = host
        super().__init__(
            f"listening on {host or 'all addresses'} without authentication would let anybody on the network "
            "read, write and delete; pass --tokens FILE (`tidegauge token new` writes it), or --insecure "
            "if something else keeps strangers out"
        )


def address_of(host: str) -> IPv4Address | IPv6Address:
    """Return the address that a host means, of the older kind if it has both."""
    try:
        found = socket.getaddrinfo(host or _ALL, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise AddressUnusableError(host, error.strerror or str(error)) from error
    return min((ip_address(one[4][0]) for one in found), key=lambda one: one.version)


def check_exposure(settings: ServeSettings) -> None:
    """Refuse to listen beyond this machine without tokens, unless that is wanted."""
    if address_of(settings.host).is_loopback:
        return
    if settings.tokens is None:
        if not settings.insecure:
            raise ExposedError(settings.host)
        _log.warning(
            "no authentication: anybody who reaches %s may read, write and delete",
            settings.host,
        )
    elif settings.tls_certificate is None:
        _log.warning(
            "tokens are sent unencrypted unless a proxy in front of the service terminates TLS"
        )


def is_for_this_machine(settings: ServeSettings) -> bool:
    """Return whether callers are let in because they are on this machine, and for nothing else."""
    is_open = settings.tokens is None and not settings.insecure
    return is_open and address_of(settings.host).is_loopback


def listen(host: str, port: int) -> socket.socket:
    """Listen there; raises `AddressUnusableError`."""
    address = address_of(host)
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    try:
        listener = socket.create_server(
            (str(address), port), family=family, backlog=_BACKLOG, reuse_port=False
        )
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while ")[0]
        raise AddressUnusableError(show_address(host, port), reason) from error
    # Connections inherit it; without it an answer in two writes waits 40 ms for an ACK.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def show_address(host: str, port: int) -> str:
    """Write an address as URLs do."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
