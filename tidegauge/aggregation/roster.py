"""The writers of one stream by name, and what is remembered of those that are forgotten."""

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterator, ValuesView
from itertools import takewhile

from tidegauge.aggregation.changes import Presence
from tidegauge.aggregation.writers import Writer
from tidegauge.errors import UnknownWriterError


class Roster:
    """The writers of a stream.

    Attributes
    ----------
    reporters
        How many distinct writers ever had a report accepted, forgotten ones too.
    forgotten_incarnation
        The highest of all forgotten writers: a registration starts above it.
    presences
        How many writers are live, left, ended and expired.
    last_heard
        The writer that last reported or left; None before any.
    expired
        By name, the writers that expired, the latest last.
    find
        Looks a writer up by name; None if nobody knows it.
    changed
        By name, writers that are to be stored.
    forgotten
        Names of writers that were forgotten, before others changed: one of these may be back.
    counters
        Both numbers above, if they are to be stored.
    """

    def __init__(self) -> None:
        self.reporters = 0
        self.forgotten_incarnation = 0
        self.presences: Counter[Presence] = Counter()
        self.last_heard: Writer | None = None
        self.expired: dict[str, Writer] = {}
        self._by_name: dict[str, Writer] = {}
        self.find: Callable[[str], Writer | None] = self._by_name.get
        self._names: list[str] | None = None
        """In order; None until somebody wants to see them so."""
        self.changed: dict[str, Writer] = {}
        self.forgotten: list[str] = []
        self.counters: tuple[int, int] | None = None

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[Writer]:
        return iter(self._by_name.values())

    @property
    def writers(self) -> ValuesView[Writer]:
        """All of them, in no order."""
        return self._by_name.values()

    def get(self, name: str) -> Writer:
        """Return a writer, or raise `UnknownWriterError`."""
        writer = self._by_name.get(name)
        if writer is None:
            raise UnknownWriterError(name)
        return writer

    def after(self, name: str, prefix: str = "") -> Iterator[Writer]:
        """List the writers whose names come after one, in order of name.

        ``prefix`` is how the names of those begin that are wanted.
        """
        if self._names is None:
            self._names = sorted(self._by_name)
        names = self._names
        first = max(bisect_right(names, name), bisect_left(names, prefix))
        places = takewhile(lambda at: names[at].startswith(prefix), range(first, len(names)))
        return (self._by_name[names[at]] for at in places)

    def restore(self, writer: Writer) -> None:
        """Add a writer that is stored."""
        self._take_in(writer)

    def settle(self) -> None:
        """Find the writers that reported last and expired last, once all that is stored is restored."""
        reported = (writer for writer in self if writer.noted.time is not None)
        self.last_heard = max(
            reported, key=lambda writer: writer.noted.heard_ms or 0, default=None
        )
        in_order = sorted(self.expired.values(), key=lambda writer: writer.life.gone_ms or 0)
        self.expired = {writer.name: writer for writer in in_order}

    def add(self, name: str, incarnation: int, presence: Presence = "live") -> Writer:
        """Add a writer that nobody knew."""
        writer = Writer.new(name, incarnation, presence)
        self._take_in(writer)
        self.change(writer)
        return writer

    def change(self, writer: Writer) -> None:
        """Record that more changed of a writer than its reports and looks say."""
        self.changed[writer.name] = writer

    def live(self) -> Iterator[Writer]:
        """List those that are live."""
        return (writer for writer in self._by_name.values() if writer.life.presence == "live")

    def unended(self) -> Iterator[str]:
        """List the names of those that have not ended."""
        return (writer.name for writer in self if writer.life.presence != "ended")

    def hear(self, writer: Writer, wall_ms: int) -> None:
        """Record that a report of a writer was accepted, or that it left."""
        writer.noted.heard_ms = wall_ms
        self.last_heard = writer

    def place(self, writer: Writer, presence: Presence) -> None:
        """Record that a writer is live, left, ended or expired from now on."""
        self.presences[writer.life.presence] -= 1
        self.presences[presence] += 1
        writer.life.presence = presence
        self.expired.pop(writer.name, None)
        if presence == "expired":
            self.expired[writer.name] = writer
        self.change(writer)

    def count_reporter(self, writer: Writer) -> None:
        """Record that a writer had its first report accepted."""
        writer.noted.reported = True
        self.reporters += 1
        self.change(writer)
        self.recount()

    def recount(self) -> None:
        """Mark the counters as changed, so that they are stored."""
        self.counters = self.reporters, self.forgotten_incarnation

    def forget(self, writer: Writer) -> None:
        """Remove a writer that is forgotten."""
        self.changed.pop(writer.name, None)
        self.forgotten.append(writer.name)
        del self._by_name[writer.name]
        self.expired.pop(writer.name, None)
        self._names = None
        self.presences[writer.life.presence] -= 1
        if writer.life.incarnation > self.forgotten_incarnation:
            self.forgotten_incarnation = writer.life.incarnation
            self.recount()

    def _take_in(self, writer: Writer) -> None:
        self._by_name[writer.name] = writer
        if self._names is not None:
            insort(self._names, writer.name)
        if writer.life.presence == "expired":
            self.expired[writer.name] = writer
        self.presences[writer.life.presence] += 1
