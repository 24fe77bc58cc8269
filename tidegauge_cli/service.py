"""Asking the service, for verbs that print the answer."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

from pydantic import BaseModel

from tidegauge.client.outage import Tell
from tidegauge.client.stream_calls import StreamCalls
from tidegauge.client.transport import Transport
from tidegauge.errors import TidegaugeError
from tidegauge.names import StreamName

_RETRY_FOR = timedelta(seconds=3)
"""Somebody sits in front of most verbs, and would rather be told."""


_A = TypeVar("_A", bound=BaseModel)
_T = TypeVar("_T")


class Service:
    """One service, asked once or more.

    Parameters
    ----------
    url
        Of the service.
    token
        Bearer token, if it wants one.
    tell
        Takes a line when it does not answer, and when it answers again.
    retry_for
        How long a request is repeated while the service is away.
    """

    def __init__(
        self, url: str, token: str | None, tell: Tell, *, retry_for: timedelta = _RETRY_FOR
    ) -> None:
        self._transport = Transport(url, token=token, retry_for=retry_for, tell=tell)

    async def get(self, path: str, answer: type[_A], **params: object) -> _A:
        """Read something."""
        return await self._transport.request(
            "GET", path, answer=answer, retry=True, params=params
        )

    async def post(
        self,
        path: str,
        answer: type[_A],
        body: BaseModel | None = None,
        *,
        repeatable: bool = False,
    ) -> _A:
        """Change something; repeated when it does no harm, or certainly nothing was done."""
        return await self._transport.request(
            "POST", path, answer=answer, retry=repeatable, body=body
        )

    async def put(
        self, path: str, answer: type[_A], body: BaseModel, *, only_new: bool = False
    ) -> _A:
        """Make something; if it is there already as described, that is fine unless only new is."""
        headers = {"if-none-match": "*"} if only_new else None
        return await self._transport.request(
            "PUT", path, answer=answer, retry=True, body=body, headers=headers
        )

    def stream(self, name: StreamName) -> StreamCalls:
        """Make the calls about one stream."""
        return StreamCalls(self._transport, name)

    async def pages(self, path: str, answer: type[_A], **params: object) -> AsyncIterator[_A]:
        """Read a whole list, page by page."""
        cursor: str | None = None
        while True:
            page = await self.get(path, answer, limit=1_000, cursor=cursor, **params)
            yield page
            cursor = _cursor(page)
            if cursor is None:
                return

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()


def warn(text: str) -> None:
    """Say something that is no answer."""
    print(f"tidegauge: {text}", file=sys.stderr, flush=True)


def ask(
    url: str,
    token: str | None,
    work: Callable[[Service], Awaitable[_T]],
    *,
    tell: Tell = warn,
    retry_for: timedelta = _RETRY_FOR,
) -> _T:
    """Do something with a service; an error ends the program with its message."""
    try:
        return asyncio.run(_with_service(Service(url, token, tell, retry_for=retry_for), work))
    except (TidegaugeError, ValueError) as error:
        sys.exit(f"tidegauge: {error}")


async def _with_service(service: Service, work: Callable[[Service], Awaitable[_T]]) -> _T:
    try:
        return await work(service)
    finally:
        await service.aclose()


def _cursor(page: BaseModel) -> str | None:
    cursor: str | None = page.model_dump(include={"cursor"})["cursor"]
    return cursor
