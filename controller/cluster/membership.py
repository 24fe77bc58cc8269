"""The lease of a controller: joining the others, renewing, noticing that it is gone."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import psycopg
from sqlalchemy import Connection

from controller.clocks import STAMP_MS, ListeningClock, boot_s
from controller.commit.waiting import Condition
from controller.database.postgresql import PostgresDatabase
from controller.logs.deduplication import LogOnce
from controller.store import leases as storage
from tidegauge.errors import TidegaugeError

_log = logging.getLogger(__name__)
_RECONNECT_S = 1.0  # news is missed meanwhile, and found a check later
_SILENCE_MS = 4 * STAMP_MS
"""A controller that missed three renewals of its lease is dead, or paused."""


class AddressTakenError(TidegaugeError):
    """Another controller that lives is reached at the same address."""

    def __init__(self, address: str) -> None:
        self.address = address
        super().__init__(
            f"another controller of this database is reached at {address}, and is alive: stop it "
            "first, or give each an --advertise-url of its own"
        )


class Membership:
    """One controller's place among those that share a database.

    The race: a controller is paused, another takes over, and it wakes up late. What it decides
    then cannot be committed, since its row is gone; it finds that out, forgets everything, and
    joins again under a new id.

    Another race: two controllers are given one address, where only one of them is reached. Who
    joins while the other renews its lease is refused; of two that join at once one is reaped,
    and refused when it joins again.
    """

    def __init__(self, database: PostgresDatabase, *, address: str, lease_ms: int) -> None:
        self._database = database
        self._listening: ListeningClock
        self._forget: Callable[[], Awaitable[None]]
        self._address = address
        self._lease_ms = lease_ms
        database.timeout_s = self.timeout_ms / 1_000
        self._valid_until = 0.0
        self.tasks: list[asyncio.Task[None]] = []
        self.controller = 0
        """The fencing token of its lease."""
        self.notices = 0
        """To be read before something that may have another holder by then."""
        self._condition = Condition()
        self._not_renewed, self._no_news = LogOnce(_log), LogOnce(_log)

    @property
    def is_certain(self) -> bool:
        """Whether the lease is in force for certain, so that memory may be read.

        The race: this machine is suspended, and another controller takes over meanwhile. So it
        is judged by a clock that goes on in the meantime.
        """
        return boot_s() < self._valid_until

    @property
    def timeout_ms(self) -> int:
        """How long a call waits for a holder."""
        return self._lease_ms + 1_000

    def notify_all(self) -> None:
        """Wake the calls that wait: something may have another holder."""
        self.notices += 1
        self._condition.notify_all()

    async def await_news(self, seen: int, *, wait_ms: int) -> None:
        """Wait for more notices than a caller has seen, or until the time is over."""
        await self._condition.until(lambda: self.notices > seen or None, wait_ms=wait_ms)

    async def start(
        self, listening: ListeningClock, forget: Callable[[], Awaitable[None]]
    ) -> None:
        """Join, and renew the lease from now on; it carries stamps of a listening clock.

        ``forget`` is called when the lease is lost: it forgets all that was held.
        """
        self._listening, self._forget = listening, forget
        await self._join()
        self.tasks = [
            asyncio.create_task(self._renew_forever(), name="renewing the lease"),
            asyncio.create_task(self._listen(), name="listening for news"),
        ]

    def write_stamps(self, connection: Connection, stamps: Sequence[int]) -> None:
        """Store the last of some stamps of the listening clock, in a transaction."""
        storage.write_stamp(connection, self.controller, stamps[-1])

    async def leave(self) -> None:
        """Return the lease and all that is held, with an exact stamp of listening time.

        If the database does not take it, it runs out.
        """
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self._condition.close()
        self._valid_until = 0.0
        if self.controller == 0:
            return
        stamp = self._listening.stamp()
        leave = partial(storage.leave, controller=self.controller, listening_ms=stamp)
        await self._database.change_aside(leave)

    async def _join(self) -> None:
        await self._await_predecessor()
        sent = boot_s()
        join = partial(storage.join, address=self._address, lease_ms=self._lease_ms)
        self.controller = await self._database.change_aside(join)
        self._database.guard(
            partial(storage.check_lease, controller=self.controller),
            partial(storage.await_commits, controller=self.controller),
        )
        self._valid_until = sent + self._lease_ms / 1_000
        _log.info("joined", extra={"controller": self.controller})

    async def _await_predecessor(self) -> None:
        """Wait until whoever had this address is silent: a process that was killed is at once."""
        find = partial(storage.left_ms, address=self._address)
        left_ms = await self._database.change_aside(find)
        while left_ms is not None and left_ms > self._lease_ms - _SILENCE_MS:
            await asyncio.sleep(STAMP_MS / 1_000)
            before_ms, left_ms = left_ms, await self._database.change_aside(find)
            if left_ms is not None and left_ms > before_ms:  # it renews its lease
                raise AddressTakenError(self._address)

    async def _renew_forever(self) -> None:
        while True:
            await asyncio.sleep(STAMP_MS / 1_000)
            try:
                await self._renew()
            except TidegaugeError as error:
                self._not_renewed.log(f"the lease was not renewed: {error}")
            else:
                self._not_renewed.end()

    async def _renew(self) -> None:
        sent = boot_s()
        now_ms, lease_ms = self._listening.now_ms(), self._lease_ms
        renew = partial(
            storage.renew, controller=self.controller, lease_ms=lease_ms, listening_ms=now_ms
        )
        if not await self._database.change_aside(renew):
            _log.warning("the lease is lost", extra={"controller": self.controller})
            self._valid_until, self.controller = 0.0, 0
            await self._forget()
            await self._join()
            self.notify_all()
            return
        was_certain = self.is_certain
        self._valid_until = sent + self._lease_ms / 1_000
        if not was_certain:
            self.notify_all()

    async def _listen(self) -> None:
        """Wake the calls that wait at every notice of another controller, until cancelled."""
        while True:
            try:
                async with await self._database.connect_to_listen() as connection:
                    await connection.execute(f"LISTEN {storage.CHANNEL}")
                    self._no_news.end()
                    self.notify_all()  # for what was missed without a connection
                    async for _ in connection.notifies():
                        self.notify_all()
            except psycopg.Error as error:
                self._no_news.log(f"the database sends no notifications: {error}")
            await asyncio.sleep(_RECONNECT_S)
