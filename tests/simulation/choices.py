"""All that is random in a run, so that faults can be left out one after another.

Each kind of choice, and each kind of fault, has a generator of its own. Whether a fault that was
drawn happens changes no other draw of that kind, nor any of another. The faults that happened are
numbered by kind: ``kill#2`` is the third kill that was drawn.
"""

import os
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar
from unittest import mock

_T = TypeVar("_T")


class Choices:
    """The choices of one run.

    Parameters
    ----------
    seed
        What decides them all.
    only
        The faults that may happen; all that are drawn if left out.
    """

    def __init__(self, seed: str, *, only: frozenset[str] | None = None) -> None:
        self._seed = seed
        self._only = only
        self._generators: dict[str, random.Random] = {}
        self._drawn: dict[str, int] = {}
        self.happened: list[str] = []
        """The faults that happened, in order."""
        self.are_faults_over = False

    def of(self, kind: str) -> random.Random:
        found = self._generators.get(kind)
        if found is None:
            found = self._generators[kind] = random.Random(f"{self._seed}/{kind}")
        return found

    def strikes(self, kind: str, probability: float) -> bool:
        is_drawn = self.of(f"fault {kind}").random() < probability
        if not is_drawn or self.are_faults_over:
            return False
        number = self._drawn.get(kind, 0)
        self._drawn[kind] = number + 1
        name = f"{kind}#{number}"
        if self._only is not None and name not in self._only:
            return False
        self.happened.append(name)
        return True

    def between(self, kind: str, low: float, high: float) -> float:
        return self.of(kind).uniform(low, high)

    def one(self, kind: str, options: Sequence[_T]) -> _T:
        return self.of(kind).choice(options)

    def _bytes(self, size: int = 32) -> bytes:
        """Return random bytes, of a generator for each size.

        Libraries take some when something is used for the first time in a process, such as
        SQLAlchemy for the names of subqueries. Those are fewer than the 16 of a UUID.
        """
        return self.of(f"{size} bytes").randbytes(size)

    @contextmanager
    def for_all(self) -> Iterator[None]:
        """Let whoever asks Python for something random have it of this run."""
        state = random.getstate()
        random.seed(f"{self._seed}/random")
        replace = mock.patch.object
        try:
            with replace(os, "urandom", self._bytes), replace(random, "_urandom", self._bytes):
                yield
        finally:
            random.setstate(state)
