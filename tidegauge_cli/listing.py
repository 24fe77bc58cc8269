"""Lists: for people a table where it fits, else without its least columns, else in blocks."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from textwrap import indent
from typing import Generic, TextIO, TypeVar

from pydantic_core import to_json
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Table
from rich.text import Text

_GAP = 2
_LEAST_WRAPPED = 20
"""Less of a sentence is hard to read."""
_DISPENSABLE = 3
"""From this rank on columns go before words are wrapped."""
_FRACTION = re.compile(r"\.\d{3}Z\Z")
_T = TypeVar("_T")


def print_line(line: str, file: TextIO) -> None:
    """Print a line: on a terminal it breaks at words, unless it is indented, as commands are."""
    console = Console(file=file)
    if console.is_terminal and not line.startswith(" "):
        console.print(Text(line))
    else:
        print(line, file=file, flush=True)


class Listing:
    """Entries of one kind, which know how to be shown in the room that there is.

    The columns have a rank: where there is no room the highest goes first; those of 0 never go.

    Attributes
    ----------
    shortens
        A column of times, which are shown without fractions of a second before any column goes.
    wraps
        A column of words, which breaks between them before the most important columns go.
    """

    def __init__(self, **ranks: int) -> None:
        self.shortens = ""
        self.wraps = ""
        self.columns = list(ranks)
        self.ranks = list(ranks.values())
        self.rows: list[list[Text]] = []

    def add(self, *cells: str | Text) -> None:
        """Add an entry, one cell for each column."""
        self.rows.append([Text(one) if isinstance(one, str) else one for one in cells])

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Show it, as rich does."""
        rows, room = self.rows, options.max_width
        if _wide(self._widths(rows)) > room:
            rows = [list(map(self._short, self.columns, row)) for row in rows]
        fitting = self._fitting(rows, room)
        yield Group(*self._blocks()) if fitting is None else self._table(rows, fitting)

    def lines(self, *, with_headers: bool) -> Iterator[str]:
        """Show it to another program: all columns, and rows one a line, as wide as they are."""
        widths = self._widths(self.rows)
        rows = [[cell.plain for cell in row] for row in self.rows]
        if with_headers:
            rows.insert(0, self.columns)
        for row in rows:
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            yield (" " * _GAP).join(cells).rstrip()

    def _short(self, column: str, cell: Text) -> Text:
        return Text(_FRACTION.sub("Z", cell.plain)) if column == self.shortens else cell

    def _widths(self, rows: Sequence[Sequence[Text]]) -> list[int]:
        return [
            max(len(column), *(row[at].cell_len for row in rows), 0)
            for at, column in enumerate(self.columns)
        ]

    def _fitting(self, rows: Sequence[Sequence[Text]], room: int) -> Sequence[int] | None:
        """Choose the columns that fit; None if not even the most important ones do."""
        widths = self._widths(rows)
        wrapping = self.columns.index(self.wraps) if self.wraps else None
        shown = list(range(len(self.columns)))
        while _wide([widths[at] for at in shown]) > room:
            least = max(shown, key=lambda at: self.ranks[at])
            if wrapping is not None and self.ranks[least] < _DISPENSABLE:
                words = (word for row in rows for word in row[wrapping].plain.split())
                least_wide = max(map(len, words), default=0)
                widths[wrapping] = min(widths[wrapping], max(_LEAST_WRAPPED, least_wide))
                wrapping = None
            elif self.ranks[least] == 0:
                return None
            else:
                shown.remove(least)
        return shown

    def _table(self, rows: Sequence[Sequence[Text]], shown: Sequence[int]) -> Table:
        table = Table(
            box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold dim"
        )
        for at in shown:
            no_wrap = self.columns[at] != self.wraps
            table.add_column(self.columns[at], no_wrap=no_wrap, overflow="fold")
        for row in rows:
            table.add_row(*(row[at] for at in shown))
        return table

    def _blocks(self) -> Iterator[Text]:
        width = max(map(len, self.columns[1:])) + _GAP
        for row in self.rows:
            yield Text(row[0].plain, style="bold", overflow="fold")
            for column, cell in zip(self.columns[1:], row[1:], strict=True):
                if cell.plain:
                    header = Text(f"  {column:<{width}}", overflow="fold")
                    yield header.append_text(cell)


def _wide(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


class Output(Generic[_T]):
    """Prints entries page by page: a long list begins at once, and is never held as a whole.

    People get a listing, programs one JSON array.
    """

    def __init__(self, listing: Callable[[Iterable[_T]], Listing], *, as_json: bool) -> None:
        self._listing = listing
        self._as_json = as_json
        self._console = Console()
        self._begun = False

    def page(self, entries: Sequence[_T]) -> None:
        """Print some entries."""
        if self._as_json:
            for entry in entries:
                print("," if self._begun else "[")
                print(indent(to_json(entry, indent=2).decode(), "  "), end="")
                self._begun = True
        elif entries or not self._begun:
            listing = self._listing(entries)
            if self._console.is_terminal:
                self._console.print(listing)
            else:
                print(*listing.lines(with_headers=not self._begun), sep="\n")
            self._begun = True

    def end(self) -> None:
        """Print what comes after the last entry."""
        if self._as_json:
            print("\n]" if self._begun else "[]")
