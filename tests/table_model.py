"""A table in memory whose commits change files, and its work list by definition: from whole files."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Literal, NamedTuple

from tidegauge.event_time import END_OF_TIME
from tidegauge.intervals import Interval, Tiling
from tidegauge.tables.history import Commit
from tidegauge.tables.notes import Note
from tidegauge.tables.work import Change, File

Row = tuple[int | None, int]
Kind = Literal["append", "foreign", "note", "delete", "compact", "restore", "final"]
_KINDS: dict[Kind, float] = {
    "append": 10,
    "foreign": 2,
    "note": 2,
    "delete": 2,
    "compact": 2,
    "restore": 0.5,
    "final": 0.3,
}
SPAN = 10
_BEGIN = 1_000


class Stored(NamedTuple):
    """A data file: its rows, and whether somebody noted between which times they are."""

    rows: tuple[Row, ...]
    has_statistics: bool

    def times(self) -> list[int]:
        return [time for time, _ in self.rows if time is not None]


@dataclass
class Version:
    """The table at a version."""

    kind: Kind
    commit: Commit
    files: dict[str, Stored]
    until: int | None


@dataclass
class ModelLog:
    """Commits up to one, newest first; it remembers which were asked for."""

    versions: list[Version]
    asked: set[int] = field(default_factory=set)
    name: str = "table"
    table_id: str = "id"

    def refresh(self) -> None:
        """Find nothing new."""

    def newest_first(self) -> Iterator[Commit]:
        for version in reversed(self.versions):
            self.asked.add(version.commit.version)
            yield version.commit

    def covered(self, version: int) -> Iterator[Commit]:
        raise NotImplementedError(version)

    def committed(self, query: str) -> int | None:
        raise NotImplementedError(query)


class ModelFiles:
    """The files of a model up to a version, as `intervals` asks for them."""

    kind = "timestamp"

    def __init__(self, versions: list[Version]) -> None:
        self.log = ModelLog(versions)
        self.read: set[str] = set()
        self._since = 0

    def read_behind(self, since: int) -> int:
        self._since = since
        return len(self.log.versions) - 1 - since

    def choose(self, column: str) -> str:
        assert column == "t"
        return column

    def changes(self) -> list[Change]:
        return [self._change(at) for at in range(self._since + 1, len(self.log.versions))]

    def times(self, file: File, below: int) -> list[int]:
        self.read.add(file.path)
        assert isinstance(file.data, Stored)
        return [time for time in file.data.times() if time < below]

    def extent(self, version: int) -> tuple[int, int] | None:
        times = _times(self.log.versions[version])
        return (min(times), max(times)) if times else None

    def _change(self, at: int) -> Change:
        before, now = self.log.versions[at - 1], self.log.versions[at]
        if now.kind == "compact":
            return Change(commit=now.commit)
        added = [
            _file(path, file) for path, file in now.files.items() if path not in before.files
        ]
        gone = [
            _file(path, file) for path, file in before.files.items() if path not in now.files
        ]
        return Change(added, gone, now.commit)


def _file(path: str, stored: Stored) -> File:
    times = stored.times() if stored.has_statistics else []
    low, high = (min(times), max(times)) if times else (None, None)
    return File(path, len(stored.rows), low, high, stored)


def _times(version: Version) -> list[int]:
    return [time for file in version.files.values() for time in file.times()]


class Model:
    """A random history of one table, by a seed."""

    def __init__(self, seed: int, without: tuple[Kind, ...] = ()) -> None:
        self._random = Random(seed)
        self._numbers = 0
        self.versions = [Version("note", Commit(0, is_first=True), {}, None)]
        kinds = {kind: weight for kind, weight in _KINDS.items() if kind not in without}
        for _ in range(self._random.randint(2, 14)):
            (kind,) = self._random.choices(list(kinds), list(kinds.values()))
            self._commit(kind)

    def files(self, version: int) -> ModelFiles:
        return ModelFiles(self.versions[: version + 1])

    def _commit(self, kind: Kind) -> None:
        before = self.versions[-1]
        version, until, said = len(self.versions), before.until, None
        reached = _BEGIN if until in (None, END_OF_TIME) else until or 0
        files = dict(before.files)
        if kind in ("append", "foreign", "final"):
            files[f"{version}"] = self._stored(self._rows(reached))
        if kind in ("append", "note", "final"):
            moved = reached + self._random.choice([0, SPAN // 2, SPAN, 3 * SPAN])
            until = said = END_OF_TIME if kind == "final" or until == END_OF_TIME else moved
        if kind == "delete" and files:
            path = self._random.choice(list(files))
            rows = files.pop(path).rows
            if len(rows) > 1:
                files[f"{version}"] = self._stored(rows[1:])
        if kind == "compact" and files:
            files = {f"{version}": self._stored(sum((one.rows for one in files.values()), ()))}
        if kind == "restore":
            files, until = dict(self._random.choice(self.versions).files), None
        note = None if said is None else Note(until=said, job="j", column="t")
        commit = Commit(version, note, ends_notes=kind == "restore")
        self.versions.append(Version(kind, commit, files, until))

    def _rows(self, reached: int) -> tuple[Row, ...]:
        found = list[Row]()
        for _ in range(self._random.randint(1, 4)):
            self._numbers += 1
            late = -self._random.randint(1, 6 * SPAN) if self._random.random() < 0.2 else None
            after = self._random.randrange(4 * SPAN)
            time = None if self._random.random() < 0.05 else reached + (late or after)
            found.append((time, self._numbers))
        return tuple(found)

    def _stored(self, rows: tuple[Row, ...]) -> Stored:
        return Stored(rows, self._random.random() < 0.8)


def contents(version: Version, interval: tuple[int, int]) -> Counter[Row]:
    """Count the rows of an interval."""
    rows = [row for file in version.files.values() for row in file.rows]
    start, end = interval
    return Counter(row for row in rows if row[0] is not None and start <= row[0] < end)


def expected(
    versions: list[Version], since: int | None, tiling: Tiling
) -> tuple[list[Interval], list[Interval]]:
    """List by definition what is new and what has changed between a version and the last one."""
    last = versions[-1]
    if last.until is None:
        return [], []
    old = None if since is None else versions[since].until
    times = [tiling.floor(time) for time in _times(last)]
    end = last.until
    if end == END_OF_TIME:
        end = tiling.after(max(times)) if times else 0
    begin = min(times, default=end) if old is None else tiling.floor(min(old, end))
    if old is not None and old >= end:
        begin = end
    new = [Interval(*ends) for ends in _grid(tiling, begin, end)]
    if old is None or since is None:
        return new, []
    return new, _changed(versions, since, min(old, last.until), tiling)


def _changed(versions: list[Version], since: int, edge: int, tiling: Tiling) -> list[Interval]:
    found, reached = dict[int, Interval](), versions[since].until
    for before, now in zip(versions[since:], versions[since + 1 :], strict=False):
        added = [file for path, file in now.files.items() if path not in before.files]
        gone = [file for path, file in before.files.items() if path not in now.files]
        for file in () if now.kind == "compact" else added + gone:
            for start in sorted(
                {tiling.floor(time) for time in _touched(file, bool(gone), tiling)}
            ):
                end = tiling.after(start)
                if end > edge:
                    continue
                former = found.get(start, Interval(start, end))
                late = (
                    [time for time in file.times() if start <= time < end] if not gone else []
                )
                found[start] = Interval(
                    start,
                    end,
                    former.rows + len(late),
                    max([former.late_by, *((reached or min(late)) - time for time in late)]),
                    former.rewritten or bool(gone),
                )
        if now.commit.ends_notes:
            reached = None
        reached = now.until if now.commit.note is not None else reached
    return sorted(found.values())


def _touched(file: Stored, is_rewritten: bool, tiling: Tiling) -> list[int]:  # noqa: FBT001
    times = file.times()
    if not times or not (is_rewritten and file.has_statistics):
        return times
    return [start for start, _ in _grid(tiling, tiling.floor(min(times)), max(times) + SPAN)]


def _grid(tiling: Tiling, begin: int, end: int) -> Iterator[tuple[int, int]]:
    while (following := tiling.after(begin)) <= end:
        yield begin, following
        begin = following
