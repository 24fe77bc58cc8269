"""Where the flights are written to and read from."""

from dataclasses import dataclass, field

from tidegauge.errors import UnknownStreamError
from tidegauge.wire.streams import CreateStream, SealedStream, SealStream, StreamInfo
from tidegauge_cli.service import Service, ask


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

    def create(self, **settings: int | None) -> None:
        """Create the stream; fine if it is there already with these settings."""

        async def put(service: Service) -> None:
            await service.put(self._path, StreamInfo, CreateStream(**settings))

        ask(self.url, self.token, put)

    def describe(self) -> StreamInfo | None:
        """Ask how the stream stands; None if there is none."""

        async def get(service: Service) -> StreamInfo | None:
            try:
                return await service.get(self._path, StreamInfo)
            except UnknownStreamError:
                return None

        return ask(self.url, self.token, get)

    def seal(self) -> None:
        """End the stream."""

        async def post(service: Service) -> None:
            await service.post(f"{self._path}/seal", SealedStream, SealStream())

        ask(self.url, self.token, post)

    @property
    def _path(self) -> str:
        return f"/v1/streams/{self.stream}"
