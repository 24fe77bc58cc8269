"""How the clients talk to the service: one place for requests, retries and errors.

A request is repeated only if the failure is transient *and* repeating it is safe.
"""

import os
import ssl
from collections.abc import Mapping
from datetime import timedelta
from functools import cache, partial
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_delay,
    wait_exponential,
    wait_random,
)

from tidegauge.client.addresses import check_token, check_url
from tidegauge.client.outage import (
    RETRY_FOR,
    Outage,
    ServiceUnreachableError,
    Tell,
    UnexpectedAnswerError,
    tell_log,
)
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
_WAIT_INITIAL_S = 0.05
"""A service that is merely restarting is asked again at once, …"""
_WAIT_MAX_S = 2.0
"""… and one that stays away is not stormed when it returns."""
_CONNECT_S = 5.0
_SILENCE_S = 20.0
"""How long the service may say nothing, beyond what it was asked to wait for news."""
_OF_A_PROXY = {502, 503, 504}
"""What a proxy answers by itself while it does not reach the service, or has just lost it."""


class Transport:
    """Requests to one service. Nothing is sent before the first of them.

    While a failure is transient, a request is repeated; ``tell`` takes a line when that begins,
    and when the service answers again. ``transport`` carries requests in place of sockets.

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
        If the URL is none of a service.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        retry_for: timedelta = RETRY_FOR,
        tell: Tell = tell_log,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.url = check_url(url).rstrip("/")
        self._retry_for = check_span("retry_for", retry_for)
        self.gives_up = True
        self._outage = Outage(self.url, tell=tell)
        self._headers = {}
        if token is not None:
            self._headers["authorization"] = f"Bearer {check_token(token)}"
        self._client: httpx.AsyncClient | None = None
        self._closed = False
        self._transport = transport

    async def request(  # noqa: PLR0913 (parts of a request)
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

    async def send(  # noqa: PLR0913 (parts of a request)
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
                    request = self._build(
                        method, path, params=params, content=body, headers=sent
                    )
                    response = await self._http().send(request)
                    self._check(response.status_code, response.content)
        except httpx.TransportError as error:
            raise ServiceUnreachableError(self.url, _reason(error)) from error
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
            stop=stop_after_delay(self._retry_for),
            wait=wait_exponential(_WAIT_INITIAL_S, _WAIT_MAX_S)
            + wait_random(0, _WAIT_INITIAL_S),
            before_sleep=begin_outage,
            reraise=True,
        )

    def begin_outage(self, reason: str) -> None:
        """Log that the service does not answer; once, until it does."""
        self._outage.begin(reason, retry_for=self._retry_for if self.gives_up else None)

    async def aclose(self) -> None:
        """Close the connections; there will be no others."""
        self._closed = True
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    def _build(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None,
        **more: Any,  # noqa: ANN401 (content and headers)
    ) -> httpx.Request:
        """Make a request, with a query of any length: positions have thousands of segments.

        One that httpx takes for too long does not go through a forward proxy (``HTTP_PROXY``).
        """
        build = partial(
            self._http().build_request, method, path, timeout=_patience(params), **more
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

    def _http(self) -> httpx.AsyncClient:
        if self._closed:
            raise ClientClosedError
        if self._client is None:
            self._client = httpx.AsyncClient(
                base_url=self.url,
                headers=self._headers,
                timeout=_patience(None),
                limits=httpx.Limits(max_connections=None),
                verify=trust_for(self.url),
                transport=self._transport,
            )
        return self._client


def is_transient(error: BaseException) -> bool:
    """Return whether the same request may succeed later."""
    refusals = OutcomeUnknownError | UnavailableError | TooManyWaitingError
    return isinstance(error, httpx.TransportError | ServiceUnreachableError | refusals)


def is_certainly_not_done(error: BaseException) -> bool:
    """Return whether the service did nothing: it was not reached, or says so."""
    refusals = UnavailableError | TooManyWaitingError
    return isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | refusals)


def _patience(params: Mapping[str, Any] | None) -> httpx.Timeout:
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
    return str(error) or type(error).__name__


def trust_for(url: str) -> ssl.SSLContext:
    """Trust whom httpx does, by ``SSL_CERT_FILE`` or ``SSL_CERT_DIR``; nobody without TLS.

    To read all authorities of the world takes 20 ms and more, and httpx does so for each client.
    A context is only configuration: clients of any thread share it.
    """
    if url.lower().startswith("https:"):
        return _authorities(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
    return _nobody()


@cache
def _authorities(_file: str | None, _directory: str | None) -> ssl.SSLContext:
    """Read them once for each that the environment names."""
    return httpx.create_ssl_context()


@cache
def _nobody() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
