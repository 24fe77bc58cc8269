"""What the clients did, were told and saw: all that the judge knows besides the end."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from tidegauge.marks import Mark


class Written(NamedTuple):
    """An event, as its writer knows it."""

    value: str
    key: str
    time: int
    order: tuple[int, int]
    """Of its key: the process of its writer, and a number in it."""
    writer: str
    is_honest: bool
    unit: str
    """The transaction or batch that it belongs to; empty for none."""


class Window(NamedTuple):
    """A group's window and position, and how many events its readers had got by then."""

    lower: int
    upper: int | None
    position: tuple[tuple[int, int], ...]
    got: int


class Checkpoint(NamedTuple):
    """Where a group stood, and how many events its readers had got by then."""

    position: tuple[tuple[int, int], ...]
    got: int


_TOLD = "acknowledged", "marks", "heard", "noted", "seen"
"""What of a book was told by controllers."""
DEAD_AFTER_MS = 2_500
"""How long a reader may be silent."""
_ROUNDED_S = 0.002
"""How far clocks of writers, in whole ms, may be off."""


@dataclass
class StreamBook:
    """All about one stream.

    Attributes
    ----------
    units
        What became of transactions and batches, as far as their owners were told.
    heard
        When each writer noted a time last that was accepted, in `World.listened_s`.
    noted
        The time that each writer noted last and that was accepted, ms.
    seen
        What of the stream only grows, as the greatest that anybody was told; see `glance`.
    promised
        All times that each writer may have noted behind its registration, ms, in order.
    firsts
        The time that each writer noted first and that was accepted, ms.
    starts
        Where to start for a time, as somebody was told.
    stops
        The revision of the mark to stop at for a time, as somebody was told, and the watermark before.
    begun
        The writer of each transaction.
    keeps_ms
        How long all events are kept, where retention drops them.
    dropped
        Writers that some controller said it expired.
    """

    name: str
    settings: dict[str, object]
    written: dict[str, Written] = field(default_factory=dict)
    acknowledged: set[str] = field(default_factory=set)
    units: dict[str, str] = field(default_factory=dict)
    marks: dict[int, Mark] = field(default_factory=dict)
    heard: dict[str, float] = field(default_factory=dict)
    noted: dict[str, int] = field(default_factory=dict)
    seen: tuple[int, ...] = (0, 0, 0, 0, 0)
    promised: dict[str, list[int]] = field(default_factory=dict)
    firsts: dict[str, int] = field(default_factory=dict)
    starts: list[tuple[int, dict[int, int]]] = field(default_factory=list)
    stops: list[tuple[int, int | None, int]] = field(default_factory=list)
    begun: dict[str, str] = field(default_factory=dict)
    keeps_ms: int = 0
    dropped: set[str] = field(default_factory=set)
    is_gone: bool = False
    """Whether somebody asked for its deletion."""
    truncated_below: int | None = None
    """Nothing at or above this time may have been dropped; None if nothing may."""
    live_writers: set[str] = field(default_factory=set)
    """Those that note the present time, again and again, until the end."""
    troubles: list[str] = field(default_factory=list)
    external: dict[int, list[Written]] = field(default_factory=dict)
    """The events of a log that is kept elsewhere, by partition."""

    def see(self, mark: Mark, by: str) -> None:
        self.grow((mark.lower, mark.revision, 0, 0, 0))
        known = self.marks.setdefault(mark.revision, mark)
        if known != mark:
            self.troubles.append(f"mark changed: {by} saw {mark}, and before that {known}")

    def grow(self, seen: tuple[int, ...]) -> None:
        """Record what somebody was told of what only grows."""
        self.seen = tuple(map(max, self.seen, seen))

    def remember(self) -> Callable[[], None]:
        """Return what forgets all that was told since, since it may be lost.

        An event whose fate is unknown may then be lost with its writer, and come before it again.
        """
        told = {one: copy(getattr(self, one)) for one in _TOLD}

        def forget() -> None:
            vars(self).update(told)
            for value, one in self.written.items():
                if value not in self.acknowledged:
                    self.written[value] = one._replace(is_honest=False)

        return forget

    def accept(self, writer: str, time: int, risen_s: float) -> None:
        """Record that a time was accepted, and when its writer first noted it."""
        self.noted[writer], self.heard[writer] = time, risen_s
        self.firsts.setdefault(writer, time)

    def drop(self, writer: str, now_s: float) -> None:
        """Record that a controller says that it dropped a writer, which had been silent."""
        again = writer in self.dropped
        self.dropped.add(writer)
        if again and self.settings.get("hold_limit_ms"):
            return  # what it noted may be below the watermark: that is no progress
        limits = [self.settings[one] for one in ("aggregation_timeout_ms", "hold_limit_ms")]
        least_s = min(one for one in limits if isinstance(one, int)) / 1_000
        silent_s = now_s - self.heard.get(writer, -inf)
        if silent_s < least_s - _ROUNDED_S:
            self.troubles.append(f"dropped early: {writer}, which noted {silent_s:.3f} s ago")


@dataclass
class GroupBook:
    """All about one reader group."""

    name: str
    stream: StreamBook
    got: dict[str, int] = field(default_factory=dict)
    """Events that a reader has worked through, each with how many there were before it."""
    windows: list[Window] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    heard: dict[str, float] = field(default_factory=dict)
    """When each reader sent what was heard of it last, in `World.listened_s`."""
    epochs: dict[int, str] = field(default_factory=dict)
    """Who had which."""

    def join(self, reader: str, epoch: int | None) -> None:
        """Record an epoch; no other reader was ever given it, also none of the same name."""
        if epoch is not None and self.epochs.setdefault(epoch, reader) != reader:
            said = f"{epoch} is that of {reader} and of {self.epochs[epoch]}"
            self.stream.troubles.append(f"not fenced: {said}")

    def take(self, value: str) -> None:
        self.got.setdefault(value, len(self.got))

    def drop(self, reader: str, now_s: float) -> None:
        """Record that a controller says that a reader had been silent."""
        silent_s = now_s - self.heard.get(reader, -inf)
        if silent_s < DEAD_AFTER_MS / 1_000 - _ROUNDED_S:
            said = f"{reader} of {self.name}, heard {silent_s:.3f} s ago"
            self.stream.troubles.append(f"dropped early: {said}")


@dataclass
class Ledger:
    """All books of a run."""

    streams: dict[str, StreamBook] = field(default_factory=dict)
    groups: dict[str, GroupBook] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)
    """What stopped a client, and what raised though nobody took it."""

    def remember(self) -> Callable[[], None]:
        """Return what forgets all that was told of streams since."""
        forgetting = [book.remember() for book in self.streams.values()]

        def forget() -> None:
            for one in forgetting:
                one()

        return forget
