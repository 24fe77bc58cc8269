"""The writers of one stream by name, and what is remembered of those that are forgotten."""

from collections.abc import Iterator, ValuesView

from tidegauge.errors import UnknownWriterError
from tidegauge.ledger import Ledger
from tidegauge.writers import Writer


class Roster:
    """Who writes to a stream.

    Parameters
    ----------
    ledger
        Where writers are stored.

    Attributes
    ----------
    reporters
        How many distinct writers ever had a report accepted, forgotten ones too.
    forgotten_incarnation
        The highest of all forgotten writers: newcomers start above it.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.reporters = 0
        self.forgotten_incarnation = 0
        self._by_name: dict[str, Writer] = {}
        self._ledger = ledger

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

    def find(self, name: str) -> Writer | None:
        """Look a writer up."""
        return self._by_name.get(name)

    def get(self, name: str) -> Writer:
        """Look a writer up, or raise `UnknownWriterError`."""
        writer = self._by_name.get(name)
        if writer is None:
            raise UnknownWriterError(name)
        return writer

    def names_after(self, name: str) -> list[str]:
        """List the names that come after one, in order."""
        return sorted(one for one in self._by_name if one > name)

    def restore(self, writer: Writer) -> None:
        """Take in a writer that is stored."""
        self._by_name[writer.name] = writer

    def add(self, name: str, incarnation: int) -> Writer:
        """Take in a writer that nobody knew."""
        writer = self._by_name[name] = Writer(name, incarnation)
        self._ledger.change(writer)
        return writer

    def count_reporter(self, writer: Writer) -> None:
        """Note that a writer had its first report accepted."""
        writer.reported = True
        self.reporters += 1
        self._ledger.change(writer)
        self._ledger.count(self.reporters, self.forgotten_incarnation)

    def forget(self, writer: Writer) -> None:
        """Leave out a writer that is gone."""
        self._ledger.forget(writer)
        del self._by_name[writer.name]
        if writer.incarnation > self.forgotten_incarnation:
            self.forgotten_incarnation = writer.incarnation
            self._ledger.count(self.reporters, self.forgotten_incarnation)
