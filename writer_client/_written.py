"""How far the owner of a reporter has written its own log, and what was noted of it."""

import threading
from collections.abc import Mapping

from tidegauge.topology import Position
from writer_client._noting import Noting
from writer_client.strategies import ObservedEvent


class Written:
    """The newest noted time and the position covered so far; a strategy tells further times.

    Usable from any thread: a time and the position that it stands for are taken under one lock.
    """

    def __init__(self, noting: Noting | None) -> None:
        self._noting = noting
        self._lock = threading.Lock()
        self._position: dict[int, int] = {}
        self._time: int | None = None
        self._accepted: int | None = None

    @property
    def last(self) -> tuple[int | None, Position]:
        """The newest noted time, and how far everything is written."""
        with self._lock:
            return self._time, dict(self._position)

    def observe(self, noting: Noting, event: ObservedEvent, position: Position) -> bool:
        """Take in an event that lies before a position; tell whether to note right after it."""
        with self._lock:
            at_once = noting.observe(event, self._time)
            for partition, offset in position.items():
                # Acknowledgements overtake each other.
                self._position[partition] = max(offset, self._position.get(partition, 0))
            return at_once

    def due(self) -> tuple[int, Position] | None:
        """Tell what to note: a new time of the strategy, or one that was not accepted yet."""
        with self._lock:
            told = None if self._noting is None else self._noting.time(self._time)
            self._time = self._time if told is None else told
            if self._time is None or self._time == self._accepted:
                return None
            return self._time, dict(self._position)

    def accept(self, time: int, position: Mapping[int, int]) -> None:
        """Take in that a time was accepted at a position."""
        with self._lock:
            self._accepted = time
            self._time = time if self._time is None else max(time, self._time)
            self._position |= position

    def promise(self, told: int | None) -> int | None:
        """Tell what a beat may say before a note is accepted; a strategy notes nothing below it then.

        Nothing above a time that was told and is still to be accepted.
        """
        with self._lock:
            if self._noting is None or told is None:
                return told
            if self._time is None:
                self._time = self._accepted = told
            return min(told, self._time)

    @property
    def is_idle(self) -> bool:
        """Whether the strategy says that nobody should wait for the writer."""
        with self._lock:
            return self._noting is not None and self._noting.is_idle
