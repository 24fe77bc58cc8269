"""Printing what was found: a listing for people, a JSON document for programs."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from textwrap import indent
from typing import Generic, TypeVar

from pydantic import BaseModel
from pydantic_core import to_json
from rich.console import Console

from tidegauge_cli.listing import Listing

_T = TypeVar("_T", bound=BaseModel)
_P = TypeVar("_P", bound=BaseModel)


class Output(Generic[_T]):
    """Prints entries page by page: a long list begins at once, and is never held as a whole.

    Parameters
    ----------
    listing
        How people see the entries.
    as_json
        Print one JSON array instead.
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
            self._print(self._listing(entries))
            self._begun = True

    def _print(self, listing: Listing) -> None:
        if self._console.is_terminal:
            self._console.print(listing)
            return
        for line in listing.lines(with_headers=not self._begun):
            print(line)

    def end(self) -> None:
        """Print what comes after the last entry."""
        if self._as_json:
            print("\n]" if self._begun else "[]")


async def print_pages(
    pages: AsyncIterator[_P], entries: Callable[[_P], Sequence[_T]], output: Output[_T]
) -> None:
    """Print the entries of each page as it comes."""
    async for page in pages:
        output.page(entries(page))
    output.end()


def show(
    found: Sequence[_T], listing: Callable[[Iterable[_T]], Listing], *, as_json: bool
) -> None:
    """Print what was found."""
    output = Output(listing, as_json=as_json)
    output.page(found)
    output.end()


def show_json(value: BaseModel | Mapping[str, object]) -> None:
    """Print one JSON document."""
    print(to_json(value, indent=2).decode())
