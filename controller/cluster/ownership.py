"""What the service asks about who holds what."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence, Sized

from sqlalchemy import Connection

from controller.store.changelog import ChangeStore


class Ownership(ABC):
    """Which streams and reader groups this controller holds, and so has in memory.

    Attributes
    ----------
    change_store
        What stores the changes of streams.
    tasks
        What has to go on from `start` to `stop`.
    closing
        Set once the service shuts down.
    """

    change_store: ChangeStore
    tasks: Sequence[asyncio.Task[None]]

    def __init__(self) -> None:
        self.closing = asyncio.Event()

    @property
    @abstractmethod
    def controller(self) -> int | None:
        """The fencing token of the controller's lease; None if there cannot be another."""

    @property
    @abstractmethod
    def is_certain(self) -> bool:
        """Whether no other controller can have taken over, so that memory may be trusted."""

    @property
    @abstractmethod
    def streams(self) -> Sized:
        """As many as there are, whoever holds them."""

    @abstractmethod
    async def stored_listening(self) -> int:
        """Read where this controller's listening clock goes on, ms."""

    @abstractmethod
    async def start(self) -> None:
        """Read back what is to be held, and look after it from now on."""

    @abstractmethod
    async def stop(self) -> None:
        """Take and give up nothing any more."""

    @abstractmethod
    async def leave(self) -> None:
        """Give everything up, once the last change is durable.

        Raises
        ------
        UnavailableError, OutcomeUnknownError
            If the database does not take it; then others wait for the lease to run out.
        """

    @abstractmethod
    async def new_stream_key(self) -> int | None:
        """Choose the key of a new stream; None if the registry does."""

    @abstractmethod
    def keep_stamp(self, stamp_ms: int) -> None:
        """Have a stamp of this controller's listening clock stored, as often as need be."""

    @abstractmethod
    def write_stamps(self, connection: Connection, stamps: Sequence[int]) -> None:
        """Store the last of some stamps of this controller's listening clock, ms."""
