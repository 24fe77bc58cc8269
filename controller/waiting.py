"""How many calls wait for news at once."""

from collections.abc import Callable
from typing import TypeVar

from controller.bell import Bell
from tidegauge.errors import TooManyWaitingError

_T = TypeVar("_T")


class WaitingRoom:
    """Where long polls wait, with a seat for each.

    Parameters
    ----------
    seats
        How many there are.
    """

    def __init__(self, seats: int) -> None:
        self._seats = seats
        self._taken = 0

    def __len__(self) -> int:
        return self._taken

    async def until(
        self, bell: Bell, look: Callable[[], _T | None], *, wait_ms: int
    ) -> _T | None:
        """Wait as `Bell.until` does; who finds something at once needs no seat.

        Raises
        ------
        TooManyWaitingError
            If all seats are taken.
        """
        found = look()
        if found is not None or wait_ms == 0:
            return found
        if self._taken >= self._seats:
            raise TooManyWaitingError(self._seats)
        self._taken += 1
        try:
            return await bell.until(look, wait_ms=wait_ms)
        finally:
            self._taken -= 1
