"""How the clients talk to the service: one place for requests, retries and errors.

A request is repeated only if the failure is transient *and* repeating it is safe.
"""

import os
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import cache, partial
from http import HTTPStatus
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    wait_exponential,
    wait_random,
)

from tidegauge.client.addresses import DATABASE_HEADER, check_token, check_urls
from tidegauge.client.outage import (
    RETRY_FOR,
    AuthoritiesError,
    Log,
    Outage,
    ServiceUnreachableError,
    TwoServicesError,
    UnexpectedAnswerError,
    log_warning,
)
from tidegauge.client.route import Route, target_of
from tidegauge.client.sync import ClientClosedError
from tidegauge.errors import (
    PROBLEMS,
    OutcomeUnknownError,
    TooManyWaitingError,
    UnavailableError,
    problem_of,
)
from tidegauge.event_time import check_span

_A = TypeVar("_A", bound=BaseModel)
_Build = Callable[[str], httpx.Request]
"""Makes the request to a controller at an address."""
_WAIT_INITIAL_S = 0.05
"""A service that is merely restarting is asked again at once, …"""
_WAIT_MAX_S = 2.0
"""… and one that stays away is not stormed when it returns."""
_CONNECT_S = 5.0
_SILENCE_S = 20.0
"""How long the service may say nothing, beyond what it was asked to wait for news."""
_PROOFS = 5
"""Of how many connections a call asks which database they lead to: others may take them first."""
_OTHER_NAME = {62, 64}
"""What OpenSSL finds of a certificate: ``X509_V_ERR_HOSTNAME_MISMATCH`` and that of an address."""
_NO_TLS = {ssl.SSLError, ssl.SSLCertVerificationError}
"""What does not pass; others are of a stream that ends, as one does where a service restarts."""
_NONE = f"no database (no header {DATABASE_HEADER}: let proxies pass it on; run one version)"
_OF_A_PROXY = {502, 503, 504}
"""What a proxy answers by itself while it does not reach the service, or has just lost it."""


class Transport:
    """Requests to one service. Nothing is sent before the first of them.

    ``url`` is the address of the service, or those of its controllers, separated by commas. If one
    cannot be reached or stands by, the next one is asked. A redirect of a controller that stands by
    is followed once, with the token, to what names the same database, and never from https to http.

    While a failure is transient, a request is repeated; ``log`` takes a line when that begins,
    and when the service answers again. ``transport`` carries requests in place of sockets.
    ``first_contact`` bounds how long it is repeated while nothing has ever answered, so that a
    wrong address is reported soon.

    Attributes
    ----------
    gives_up
        Whether its owner is done when a request was repeated in vain, and does not make another.

    Raises
    ------
    InvalidTokenError
        If the token cannot be one.
    TypeError
        If ``retry_for`` is no timedelta.
    ValueError
        If a URL is none of a service.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        retry_for: timedelta = RETRY_FOR,
        first_contact: timedelta | None = None,
        log: Log = log_warning,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.url = check_urls(url)
        self._route = Route(self.url.split(","))
        self._retry_for = check_span("retry_for", retry_for)
        self._first_contact = first_contact
        self.gives_up = True
        self._outage = Outage(self.url, log=log)
        self._headers = {}
        if token is not None:
            self._headers["authorization"] = f"Bearer {check_token(token)}"
        self._clients: dict[tuple[str, str | None], httpx.AsyncClient] = {}
        self._closed = False
        self._transport = transport

    async def request(
        self,
        method: str,
        path: str,
        *,
        answer: type[_A],
        retry: bool,
        params: Mapping[str, Any] | None = None,
        body: BaseModel | bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> _A:
        """Send a request and read the answer, a message of the given type.

        With ``retry`` the call is repeated also after it may have been carried out. Parameters
        that are None are left out; the type of a body of bytes is named by the headers.

        Raises
        ------
        ProblemError
            What the service refused.
        ServiceUnreachableError
            If it did not answer in time.
        UnexpectedAnswerError
            If something else answered.
        ClientClosedError
            If the transport was closed.
        """
        response = await self.send(
            method, path, retry=retry, params=params, body=body, headers=headers
        )
        try:
            return answer.model_validate_json(response.content or b"{}")
        except ValueError as error:
            raise self._unexpected(response.status_code, response.content) from error

    async def send(
        self,
        method: str,
        path: str,
        *,
        retry: bool,
        params: Mapping[str, Any] | None = None,
        body: BaseModel | bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Send a request as `request` does, for an answer that is no message."""
        sent = dict(headers or {})
        if isinstance(body, BaseModel):
            sent["content-type"] = "application/json"
            body = body.model_dump_json(exclude_unset=True).encode()
        try:
            async for attempt in self.attempts(repeatable=retry):
                with attempt:
                    build = partial(
                        self._build, method, path, params=params, content=body, headers=sent
                    )
                    response = await self._ask(path, build)
                    self._check(response.status_code, response.content)
        except httpx.TransportError as error:
            raise ServiceUnreachableError(self.url, _reason(error)) from None
        if not response.is_success:
            raise self._unexpected(response.status_code, response.content)
        return response

    def attempts(self, *, repeatable: bool = True) -> AsyncRetrying:
        """Repeat something while the failure is transient, and repeating it does no harm."""

        def worth_repeating(error: BaseException) -> bool:
            return is_transient(error) and (repeatable or is_certainly_not_done(error))

        def begin_outage(state: RetryCallState) -> None:
            self.begin_outage(_reason(state.outcome.exception() if state.outcome else None))

        return AsyncRetrying(
            retry=retry_if_exception(worth_repeating),
            stop=lambda state: (
                (state.seconds_since_start or 0) >= self._patience().total_seconds()
            ),
            wait=wait_exponential(_WAIT_INITIAL_S, _WAIT_MAX_S)
            + wait_random(0, _WAIT_INITIAL_S),
            before_sleep=begin_outage,
            reraise=True,
        )

    def begin_outage(self, reason: str) -> None:
        """Log that the service does not answer; once, until it does."""
        self._outage.begin(reason, retry_for=self._patience() if self.gives_up else None)

    async def aclose(self) -> None:
        """Close the connections; there will be no others."""
        self._closed = True
        for client in self._clients.values():
            await client.aclose()
        self._clients.clear()

    def _patience(self) -> timedelta:
        """Return how long a request is repeated."""
        return self._retry_for if self._first_contact is None else self._first_contact

    async def _ask(self, path: str, build: _Build) -> httpx.Response:
        """Ask each address until a controller answers that holds the database."""
        refusal: httpx.Response | None = None
        failure: httpx.TransportError | None = None
        for url in self._route.candidates():
            try:
                response = await self._ask_one(url, path, build)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                if failure is None or not is_transient(failure):
                    failure = error
            except httpx.TransportError:
                self._first_contact = None
                self._route.demote(url)
                raise
            else:
                if not _stands_by(response):
                    return response
                refusal = response
            self._route.demote(url)
        if refusal is not None:
            return refusal
        assert failure is not None  # noqa: S101 (there is at least one address)
        raise failure

    async def _ask_one(self, url: str, path: str, build: _Build) -> httpx.Response:
        """Ask one address, and the one that it redirects to."""
        route = self._route
        if route.databases and route.is_unheard(url):
            await self._hear(url, await self._database_of(url))
        if url in route.proofs:
            response = await self._follow(url, build, *route.proofs[url])
        else:
            response = await self._http(url).send(build(url))
        self._first_contact = None
        holder, database = url, response.headers.get(DATABASE_HEADER, "")
        location = response.headers.get("location")
        if database and url in route.urls:
            await self._hear(url, database)
        elif route.is_unheard(url) and len(route.urls) > 1 and response.is_success:
            with suppress(httpx.ConnectError):  # to compare others with, once it is gone
                await self._hear(url, await self._database_of(url))
        if response.status_code == HTTPStatus.TEMPORARY_REDIRECT and location:
            holder = target_of(location, asked=url, path=path)
            response = await self._follow(holder, build, database, url)
            if response.status_code == HTTPStatus.TEMPORARY_REDIRECT:
                reason = (
                    f"{url} redirects to {holder}, which redirects, too: none of them holds"
                )
                raise httpx.ConnectError(reason)
        if not _stands_by(response):
            route.prefer(holder)
        return response

    async def _follow(
        self, holder: str, build: _Build, database: str, asked: str
    ) -> httpx.Response:
        """Ask the holder over a connection that proves itself; an error names it."""
        kind: type[httpx.TransportError] = httpx.ConnectError
        try:
            response = await self._send_proved(holder, build, database)
        except httpx.TransportError as error:
            kind = httpx.ConnectError if is_certainly_not_done(error) else httpx.ReadError
            reason = _reason(error)
        else:
            self._route.proofs[holder] = database, asked
            return response
        self._route.demote(holder)
        msg = f"{asked} stands by for {holder} (its --advertise-url), which cannot be used: {reason}"
        raise kind(msg)

    async def _send_proved(self, holder: str, build: _Build, database: str) -> httpx.Response:
        """Send over a connection that has named the database, and over no other.

        Of the client for both, only the question which database it is opens connections.
        """
        known, _ = self._route.proofs.get(holder, (None, ""))
        for asked in range(_PROOFS + 1):  # another call may take the connection that was asked
            if asked or known != database:
                named = await self._database_of(holder, database)
                if holder in self._route.urls:
                    await self._hear(holder, named)
                if not named or named != database:
                    msg = f"its /readyz names {named or _NONE}, and the redirect {database or _NONE}"
                    raise httpx.ConnectError(msg)
            request = build(holder)
            request.extensions["trace"] = _refuse_to_connect
            with suppress(_ConnectsError):  # something else may listen there now
                return await self._http(holder, database).send(request)
        reason = "it closed the connection over which its /readyz named the database"
        raise httpx.ConnectError(reason)

    async def _hear(self, url: str, database: str) -> None:
        """Take in which database a given address names; raise if another one differs, now, too."""
        known = self._route.databases
        for other in [one for one in known if database and known[one] not in {"", database}]:
            if known[other] == known.get(url):  # both named another one before: it was replaced
                known[other] = ""
            with suppress(httpx.ConnectError):
                known[other] = await self._database_of(other)
            if known[other] not in {"", database}:
                msg = f"{other} and {url} lead to different databases: name one service"
                raise TwoServicesError(msg)
        known[url] = database

    async def _database_of(self, url: str, expected: str | None = None) -> str:
        """Ask an address which database it is of, without the token; empty if it does not say.

        A connection that names another one than is expected is closed, before any call could take it.
        """
        http = self._http(url, expected)
        request = http.build_request("GET", f"{url}/readyz", timeout=_CONNECT_S)
        request.headers.pop("authorization", None)
        try:
            answer = await http.send(request, stream=True)
            named = str(answer.headers.get(DATABASE_HEADER, ""))
            if expected in {None, named}:
                await answer.aread()
            await answer.aclose()
        except httpx.TransportError as error:
            raise httpx.ConnectError(_reason(error)) from error
        return named

    def _build(
        self,
        method: str,
        path: str,
        url: str,
        *,
        params: Mapping[str, Any] | None,
        **more: Any,  # noqa: ANN401 (content and headers)
    ) -> httpx.Request:
        """Make a request, with a query of any length: positions have thousands of segments.

        One that httpx takes for too long does not go through a forward proxy (``HTTP_PROXY``).
        """
        build = partial(
            self._http(url).build_request,
            method,
            url + path,
            timeout=_limits(params),
            **more,
        )
        given = {name: value for name, value in (params or {}).items() if value is not None}
        query = httpx.QueryParams(given)
        try:
            return build(params=query)
        except httpx.InvalidURL:  # it takes no more than 65 536 characters
            request = build()
            request.extensions["target"] = request.url.raw_path + b"?" + str(query).encode()
            return request

    def _check(self, status: int, content: bytes) -> None:
        """Record that the service has answered, or raise the error that it names."""
        if status < 400:
            self._outage.end()
            return
        try:
            document = _Document.model_validate_json(content)
        except ValueError:
            if status in _OF_A_PROXY:
                raise ServiceUnreachableError(self.url, f"a proxy says {status}") from None
            raise self._unexpected(status, content) from None
        if document.code not in PROBLEMS:
            raise UnexpectedAnswerError(self.url, status, document.detail)
        problem = problem_of(document.model_dump())
        if not is_transient(problem):
            self._outage.end()
        raise problem

    def _unexpected(self, status: int, content: bytes) -> UnexpectedAnswerError:
        return UnexpectedAnswerError(self.url, status, content[:200].decode(errors="replace"))

    def _http(self, url: str, database: str | None = None) -> httpx.AsyncClient:
        """Return the client that all given addresses share, or that of a target and its database."""
        if self._closed:
            raise ClientClosedError
        key = url.partition(":")[0].lower() if database is None else url, database
        if key not in self._clients:
            self._clients[key] = httpx.AsyncClient(
                headers=self._headers,
                limits=httpx.Limits(max_connections=None),
                verify=trust_for(url),
                transport=self._transport,
            )
        return self._clients[key]


def is_transient(error: BaseException) -> bool:
    """Return whether the same request may succeed later."""
    refusals = OutcomeUnknownError | UnavailableError | TooManyWaitingError
    return isinstance(
        error, httpx.TransportError | ServiceUnreachableError | refusals
    ) and not any(type(cause) in _NO_TLS for cause in _causes(error))


def is_certainly_not_done(error: BaseException) -> bool:
    """Return whether the service did nothing: it was not reached, or says so."""
    refusals = UnavailableError | TooManyWaitingError
    return isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | refusals)


class _ConnectsError(Exception):
    """A request would have gone over a new connection."""


async def _refuse_to_connect(event: str, _info: Mapping[str, Any]) -> None:
    if event.endswith(".connect_tcp.started"):  # of a SOCKS proxy, too
        raise _ConnectsError


def _stands_by(response: httpx.Response) -> bool:
    """Return whether a controller itself refuses for now, so that another one may answer.

    What a proxy says by itself is left alone: the service may have done what was asked.
    """
    is_ours = response.headers.get("content-type", "").startswith("application/problem+json")
    return response.status_code == HTTPStatus.SERVICE_UNAVAILABLE and is_ours


def _limits(params: Mapping[str, Any] | None) -> httpx.Timeout:
    wait_ms = (params or {}).get("wait_ms") or 0
    return httpx.Timeout(_SILENCE_S + wait_ms / 1_000, connect=_CONNECT_S)


class _Document(BaseModel, extra="allow"):
    code: str
    detail: str = ""


def _reason(error: BaseException | None) -> str:
    if isinstance(error, httpx.ReadTimeout):
        return "the request was sent, but nothing came back in time"
    if isinstance(error, ServiceUnreachableError):
        return error.reason
    if isinstance(error, httpx.RemoteProtocolError) and error.request.url.scheme == "http":
        return f"{str(error).rstrip('.')}; write https:// if it speaks TLS"
    if isinstance(error, httpx.ConnectError):
        return _why_not_connected(error)
    return str(error) or type(error).__name__


def _why_not_connected(error: httpx.ConnectError) -> str:
    """Return what the system or OpenSSL says, where the network library only says that it failed."""
    for cause in _causes(error):
        match cause:
            case ssl.SSLCertVerificationError():
                said = cause.verify_message.rstrip(".")
                cure = "SSL_CERT_FILE says whom to trust"
                if cause.verify_code in _OTHER_NAME:
                    cure = "write the URL with a name that the certificate has"
                return f"its certificate is refused: {said}; {cure}"
            case ssl.SSLError() if type(cause) in _NO_TLS:
                return (
                    f"it speaks no TLS that fits ({cause.reason}); write http:// if it has none"
                )
            case ssl.SSLError():
                return "the connection ended within the TLS handshake"
            case ConnectionRefusedError():
                return "connection refused"
            case OSError(errno=int(number)) if number > 0:
                return os.strerror(number).lower()
    return str(error) or type(error).__name__


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        if isinstance(error, ExceptionGroup):  # one for each address of the name
            error = error.exceptions[0]
        yield error
        error = error.__cause__ or error.__context__


def trust_for(url: str) -> ssl.SSLContext:
    """Trust whom httpx does, by ``SSL_CERT_FILE`` or ``SSL_CERT_DIR``; nobody without TLS.

    To read all authorities of the world takes 20 ms and more, and httpx does so for each client.
    A context is only configuration: clients of any thread share it.
    """
    if url.lower().startswith("https:"):
        return _authorities(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
    return _nobody()


@cache
def _authorities(file: str | None, _directory: str | None) -> ssl.SSLContext:
    """Read them once for each that the environment names."""
    try:
        return httpx.create_ssl_context()
    except OSError as error:
        raise AuthoritiesError(file, error.strerror or str(error)) from None


@cache
def _nobody() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
