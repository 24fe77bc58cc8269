"""How many calls wait for news at once."""

from collections.abc import Callable
from typing import TypeVar

from controller.commit.cancellation import Reason, unless
from controller.commit.condition import Condition
from tidegauge.errors import TooManyWaitingError

_T = TypeVar("_T")


class WaitingRoom:
    """Where long polls wait, with a seat for each."""

    def __init__(self, seats: int) -> None:
        self._seats = seats
        self._taken = 0

    def __len__(self) -> int:
        return self._taken

    async def until(
        self,
        condition: Condition,
        look: Callable[[], _T | None],
        *,
        wait_ms: int,
        hung_up: Reason,
    ) -> _T | None:
        """Wait as `Condition.until` does; who finds something at once needs no seat.

        Who has hung up gives its seat back at once, and is told by `ClientDisconnect`.
        """
        news = look()
        if news is not None or wait_ms == 0:
            return news
        if self._taken >= self._seats:
            raise TooManyWaitingError(self._seats)
        self._taken += 1
        try:
            return await unless(condition.until(look, wait_ms=wait_ms), hung_up)
        finally:
            self._taken -= 1
