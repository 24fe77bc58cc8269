"""What ``with`` does with clients: some are opened, all are closed."""

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """A client that is closed behind its ``with`` block."""

    @abstractmethod
    def close(self) -> None:
        """Release what it holds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


class Opening(Closing):
    """A client that is opened before its ``with`` block; if that fails, it is closed at once."""

    @abstractmethod
    def open(self) -> None:
        """Get ready."""

    def __enter__(self) -> Self:
        try:
            self.open()
        except BaseException:
            self.close()
            raise
        return self


class AsyncOpening(ABC):
    """The same for an ``async with`` block."""

    @abstractmethod
    async def open(self) -> None:
        """Get ready."""

    @abstractmethod
    async def close(self) -> None:
        """Release what it holds."""

    async def __aenter__(self) -> Self:
        try:
            await self.open()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()
