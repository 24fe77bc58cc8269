"""How the clients talk to the service: one place for requests, retries and errors.

A request is repeated only if the failure is transient *and* repeating it is safe.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
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

from tidegauge.client.addresses import check_url
from tidegauge.client.outage import Outage, Tell, tell_log
from tidegauge.client.sync import ClientClosedError
from tidegauge.client.tokens import check_token
from tidegauge.client.trust import trust_for
from tidegauge.errors import (
    PROBLEMS,
    OutcomeUnknownError,
    ProblemError,
    TidegaugeError,
    TooManyWaitingError,
    UnavailableError,
    problem_of,
)

_A = TypeVar("_A", bound=BaseModel)
_JSON = "application/json"
_WAIT_INITIAL_S = 0.05
_WAIT_MAX_S = 2.0
_CONNECT_S = 5.0
_SILENCE_S = 20.0
"""How long the service may say nothing, beyond what it was asked to wait for news."""
_OF_A_PROXY = {502, 503, 504}
"""What a proxy answers by itself while it does not reach the service, or has just lost it."""

RETRY_FOR = timedelta(seconds=60)
"""How long a client tries again by default."""


class ServiceUnreachableError(TidegaugeError):
    """The service did not answer, however often it was asked.

    Attributes
    ----------
    url
        Where it should be.
    reason
        What happened at the last try.
    """

    def __init__(self, url: str, reason: str) -> None:
        self.url = url
        self.reason = reason
        super().__init__(f"no answer from {url}: {reason}; is the service running there?")


class UnexpectedAnswerError(TidegaugeError):
    """Something answered, but not this version of the service.

    Attributes
    ----------
    url
        Where the service should be.
    status
        HTTP status.
    body
        The beginning of what it said.
    """

    def __init__(self, url: str, status: int, body: str) -> None:
        self.url = url
        self.status = status
        self.body = body
        said = f", {body!r}" if body else ""
        super().__init__(
            f"{url} does not answer as Tidegauge does (status {status}{said}): is it the address "
            "of a service of this version?"
        )


class Transport:
    """Requests to one service. Nothing is sent before the first of them.

    Parameters
    ----------
    url
        Of the service, such as ``http://127.0.0.1:8470``.
    token
        Bearer token, if the service wants one.
    retry_for
        How long a request is repeated while the failure is transient.
    tell
        Takes a line when that begins, and when the service answers again; left out, a log does.

    Raises
    ------
    InvalidTokenError
        If the token cannot be one.
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
    ) -> None:
        self.url = check_url(url).rstrip("/")
        self._retry_for = retry_for
        self._outage = Outage(self.url, retry_for=retry_for, tell=tell)
        self._headers = {} if token is None else {"authorization": _bearer(token)}
        self._client: httpx.AsyncClient | None = None
        self._closed = False

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
        """Send a request and read the answer.

        Parameters
        ----------
        method, path
            Which call.
        answer
            The message that a success carries.
        retry
            Whether the call may be repeated after it may have been carried out.
        params
            Query parameters; those that are None are left out.
        body
            A message, or bytes whose type ``headers`` name.
        headers
            More headers.

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
        content, sent = _content(body, headers)
        response: httpx.Response | None = None
        try:
            async for attempt in self._attempts(repeatable=retry):
                with attempt:
                    request = self._build(
                        method, path, params=params, content=content, headers=sent
                    )
                    response = await self._http().send(request)
                    self._check(response.status_code, response.content)
        except httpx.TransportError as error:
            raise ServiceUnreachableError(self.url, _reason(error)) from error
        if response is None:
            msg = "there is always a first attempt"
            raise AssertionError(msg)
        return self._read(response, answer)

    @asynccontextmanager
    async def stream(
        self, path: str, *, params: Mapping[str, Any] | None = None
    ) -> AsyncIterator[httpx.Response]:
        """Open a large answer; whoever reads it resumes it after a failure.

        Raises
        ------
        ProblemError
            What the service refused.
        httpx.TransportError
            If the connection fails, now or while it is read.
        """
        response = await self._http().send(self._build("GET", path, params=params), stream=True)
        try:
            said = await response.aread() if response.is_error else b""
            self._check(response.status_code, said)
            yield response
        finally:
            await response.aclose()

    def attempts(self) -> AsyncRetrying:
        """Repeat something that does no harm by being repeated."""
        return self._attempts(repeatable=True)

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
        query = httpx.QueryParams(_given(params))
        try:
            return build(params=query)
        except httpx.InvalidURL:  # it takes no more than 65 536 characters
            request = build()
            request.extensions["target"] = request.url.raw_path + b"?" + str(query).encode()
            return request

    def _attempts(self, *, repeatable: bool) -> AsyncRetrying:
        def worth_repeating(error: BaseException) -> bool:
            return is_transient(error) and (repeatable or is_certainly_not_done(error))

        return AsyncRetrying(
            retry=retry_if_exception(worth_repeating),
            stop=stop_after_delay(self._retry_for),
            wait=wait_exponential(_WAIT_INITIAL_S, _WAIT_MAX_S)
            + wait_random(0, _WAIT_INITIAL_S),
            before_sleep=self._begin_outage,
            reraise=True,
        )

    def _begin_outage(self, state: RetryCallState) -> None:
        error = None if state.outcome is None else state.outcome.exception()
        self._outage.begin(_reason(error))

    def _check(self, status: int, content: bytes) -> None:
        """Take in that the service has answered, or raise what it says."""
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
        problem = _problem(content)
        if not is_transient(problem):
            self._outage.end()
        raise problem

    def _read(self, response: httpx.Response, answer: type[_A]) -> _A:
        unexpected = self._unexpected(response.status_code, response.content)
        if not response.is_success:
            raise unexpected
        try:
            return answer.model_validate_json(response.content or b"{}")
        except ValueError as error:
            raise unexpected from error

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
            )
        return self._client


def is_transient(error: BaseException) -> bool:
    """Whether the same request may succeed later."""
    refusals = OutcomeUnknownError | UnavailableError | TooManyWaitingError
    return isinstance(error, httpx.TransportError | ServiceUnreachableError | refusals)


def is_certainly_not_done(error: BaseException) -> bool:
    """Whether the service did nothing: it was not reached, or says so."""
    refusals = UnavailableError | TooManyWaitingError
    return isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | refusals)


def _content(
    body: BaseModel | bytes | None, headers: Mapping[str, str] | None
) -> tuple[bytes | None, dict[str, str]]:
    sent = dict(headers or {})
    if isinstance(body, BaseModel):
        sent["content-type"] = _JSON
        return body.model_dump_json(exclude_unset=True).encode(), sent
    return body, sent


def _bearer(token: str) -> str:
    return f"Bearer {check_token(token)}"


def _given(params: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (params or {}).items() if value is not None}


def _patience(params: Mapping[str, Any] | None) -> httpx.Timeout:
    wait_ms = (params or {}).get("wait_ms") or 0
    return httpx.Timeout(_SILENCE_S + wait_ms / 1_000, connect=_CONNECT_S)


def _problem(content: bytes) -> ProblemError:
    return problem_of(_Document.model_validate_json(content).model_dump())


class _Document(BaseModel, extra="allow"):
    code: str
    detail: str = ""


def _reason(error: BaseException | None) -> str:
    if isinstance(error, httpx.ReadTimeout):
        return "the request was sent, but nothing came back in time"
    if isinstance(error, ServiceUnreachableError):
        return error.reason
    return str(error) or type(error).__name__
