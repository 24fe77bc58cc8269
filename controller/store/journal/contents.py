"""What is in the journal, as memory has it."""

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import astuple
from sqlalchemy import Connection

from controller.store.journal.storage import Entry, read_entries


@dataclass(slots=True)
class Recent:
    """What is stored of a stream, but not in its tables."""

    first: int
    """The entry of the journal with the oldest of it."""
    rows: int = 0
    """Roughly how many short rows it is."""
    texts: list[bytes] = field(default_factory=list)
    """What each transaction changed."""


class Stored(NamedTuple):
    """An entry of the journal."""

    number: int
    rows: int
    """Roughly how many short rows its changes are."""


@dataclass(slots=True)
class Contents:
    """All entries, and what is recent of each stream.

    Attributes
    ----------
    recent
        By key of the stream, in order of their first entries.
    entries
        In order.
    last
        The number of the newest entry; 0 if there never was one.
    rows
        Of all entries.
    """

    recent: dict[int, Recent] = field(default_factory=dict)
    entries: deque[Stored] = field(default_factory=deque)
    last: int = 0
    rows: int = 0

    @classmethod
    def read(cls, connection: Connection) -> "Contents":
        """Read what the disk has."""
        self = cls()
        for number, entry in read_entries(connection):
            self.take_in(number, entry)
        return self

    def take_in(self, number: int, entry: Entry) -> None:
        """Note that an entry was stored."""
        for key in entry.settled:
            self.recent.pop(key, None)
        for key, rows, text in map(astuple, entry.recorded):
            recent = self.recent.get(key) or self.recent.setdefault(key, Recent(number))
            recent.rows += rows
            recent.texts.append(bytes(text))
        self.entries.append(Stored(number, sum(one.rows for one in entry.recorded)))
        self.rows += self.entries[-1].rows
        self.last = number

    def free(self, count: int) -> None:
        """Note that the oldest entries were deleted."""
        for _ in range(count):
            self.rows -= self.entries.popleft().rows
