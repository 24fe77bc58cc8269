"""Where the flights are written to and read from."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel

from tidegauge.client.outage import RETRY_FOR
from tidegauge.errors import UnknownStreamError
from tidegauge.topology import Position
from tidegauge.wire.streams import CreateStream, SealedStream, SealStream, StreamInfo
from tidegauge_cli.service import Service, Session

_T = TypeVar("_T")
_A = TypeVar("_A", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class StreamAddress:
    """One stream of one service, ``scope/stream``; the service is waited for as writers do."""

    url: str
    stream: str
    token: str | None = field(default=None, repr=False)

    def create(self, **settings: Any) -> StreamInfo:  # noqa: ANN401 (JSON)
        """Create the stream; fine if it is there already with these settings."""
        return self._send("PUT", self._path, CreateStream(**settings), StreamInfo)

    def describe(self) -> StreamInfo | None:
        """Ask how the stream stands; None if there is none."""

        async def get(service: Service) -> StreamInfo | None:
            try:
                return await service.get(self._path, StreamInfo)
            except UnknownStreamError:
                return None

        return self._ask(get)

    def seal(self, position: Position | None = None) -> None:
        """End the stream, at the ends of its partitions if those are elsewhere; fine if it has."""
        body = SealStream(position=position)
        self._send("POST", f"{self._path}/seal", body, SealedStream)

    def _send(self, method: str, path: str, body: BaseModel, answer: type[_A]) -> _A:
        return self._ask(
            lambda service: service.transport.request(
                method, path, answer=answer, retry=True, body=body
            )
        )

    def _ask(self, work: Callable[[Service], Awaitable[_T]]) -> _T:
        return Session(self.url, self.token).ask(work, retry_for=RETRY_FOR, first_contact=None)

    @property
    def _path(self) -> str:
        return f"/v1/streams/{self.stream}"
