"""Where the flights are written to and read from."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from tidegauge.client.transport import RETRY_FOR
from tidegauge.errors import UnknownStreamError
from tidegauge.wire.streams import CreateStream, SealedStream, SealStream, StreamInfo
from tidegauge_cli.service import Service, ask

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class StreamAddress:
    """One stream of one service.

    Attributes
    ----------
    url
        Of the service.
    stream
        ``scope/stream``.
    token
        Bearer token, if the service wants one.
    """

    url: str
    stream: str
    token: str | None = field(default=None, repr=False)

    def create(self, **settings: int | None) -> StreamInfo:
        """Create the stream; fine if it is there already with these settings."""

        async def put(service: Service) -> StreamInfo:
            return await service.put(self._path, StreamInfo, CreateStream(**settings))

        return self._ask(put)

    def describe(self) -> StreamInfo | None:
        """Ask how the stream stands; None if there is none."""

        async def get(service: Service) -> StreamInfo | None:
            try:
                return await service.get(self._path, StreamInfo)
            except UnknownStreamError:
                return None

        return self._ask(get)

    def seal(self) -> None:
        """End the stream; fine if it has ended."""

        async def post(service: Service) -> None:
            await service.post(
                f"{self._path}/seal", SealedStream, SealStream(), repeatable=True
            )

        self._ask(post)

    def _ask(self, work: Callable[[Service], Awaitable[_T]]) -> _T:
        """Do something, and wait as long for the service as writers do."""
        return ask(self.url, self.token, work, retry_for=RETRY_FOR)

    @property
    def _path(self) -> str:
        return f"/v1/streams/{self.stream}"
