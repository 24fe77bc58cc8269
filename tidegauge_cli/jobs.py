"""Running a command once for each interval of a work list; what is left is kept in a file."""

import fcntl
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict, ValidationError

from tidegauge_cli.service import warn

PLACEHOLDER = re.compile(
    r"\$\{[^{}]*\}|\{\{[^{}]*\}\}|\{(\s*[A-Za-z_]\w*\s*(?:[!.:\[](?! )[^{}]*)?)\}"
)
"""A group that is or looks like one; ``${…}`` and ``{{…}}`` are of others, and have none."""


class Task(BaseModel):
    """What fills the placeholders of a command, as text."""

    model_config = ConfigDict(extra="forbid", strict=True)

    start: str
    end: str
    version: str | None = None
    cut: str | None = None


class Listed(NamedTuple):
    """What is listed behind a cursor.

    Attributes
    ----------
    ends
        Of the intervals: where each starts and ends.
    place
        At what to read: a version or a cut; nothing while nothing is known, and listed.
    cursor
        The next one.
    """

    ends: Sequence[tuple[str, str]]
    place: Mapping[str, str]
    cursor: str | None


ListBehind: TypeAlias = Callable[[str | None], Listed]
"""Lists what is behind a cursor."""


class State(BaseModel):
    """What a state file has: the cursor, and what is left of all lists up to it.

    They are one file: a cursor that is stored before its list loses it when the machine dies, and
    one that is stored behind it runs the list again.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    cursor: str | None = None
    left: list[Task] = []

    @classmethod
    def load(cls, path: Path) -> "State":
        """Read a file; an empty state if there is none.

        Raises
        ------
        ValueError
            If it is none that `save` wrote.
        """
        if not path.exists():
            return cls()
        with _failures_of(path):
            content = path.read_bytes()
        try:
            return cls.model_validate_json(content)
        except ValidationError as error:
            wrong = error.errors(include_url=False)[0]
            problem = ": ".join([*map(str, wrong["loc"]), wrong["msg"]])
            cure = (
                "correct it, update Tidegauge if a later version wrote it, or begin with another "
                'file and --start, no later than the first interval in its "left"'
            )
            msg = f"{path} is no state file of this version: {problem}; {cure}"
            raise ValueError(msg) from None

    def add(self, listed: Listed) -> None:
        """Add a list. What is left is read at its place, too: an older one may not be kept."""
        self.cursor = listed.cursor
        if listed.place:
            ends = [*((task.start, task.end) for task in self.left), *listed.ends]
            self.left = [
                Task(start=start, end=end, **listed.place) for start, end in dict.fromkeys(ends)
            ]

    def save(self, path: Path) -> None:
        """Replace the file as a whole, on the disk."""
        written = path.with_name(f"{path.name}.new")
        with _failures_of(path):
            with written.open("w") as file:
                file.write(self.model_dump_json(exclude_none=True))
                file.flush()
                os.fsync(file.fileno())
            written.replace(path)


def run_all(state_file: Path, list_behind: ListBehind, command: Sequence[str]) -> bool:
    """Run a command for all that is left and new; return whether each succeeded.

    Nothing is done while another process does it. What fails stays for the next time.

    Raises
    ------
    ValueError
        If the file is no state file.
    OSError
        If it cannot be read or written.
    """
    # Where it is a link, what that leads to is replaced, and locked.
    path = Path(os.path.realpath(state_file))
    with _locked(path) as lock:
        if lock is None:
            return True
        state = State.load(path)
        state.add(list_behind(state.cursor))
        state.save(path)
        for task in list(state.left):
            if _run(command, task, lock):
                state.left.remove(task)
                state.save(path)
        return not state.left


def _run(command: Sequence[str], task: Task, lock: int) -> bool:
    values = task.model_dump(exclude_none=True)
    words = [
        PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), word) for word in command
    ]
    # The command holds the lock, too: if this process is killed, it is not started twice at once.
    status = subprocess.run(words, pass_fds=[lock], check=False).returncode
    if status:
        place = f"{task.start} to {task.end}"
        warn(f"{words[0]} failed with status {status} for {place}; the next run tries it again")
    return not status


@contextmanager
def _locked(path: Path) -> Iterator[int | None]:
    """Lock a state file while it is worked off; None if somebody else does."""
    with _failures_of(path):
        file = path.with_name(f"{path.name}.lock").open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_free = True
        except BlockingIOError:
            is_free = False
    with file:
        yield file.fileno() if is_free else None


@contextmanager
def _failures_of(path: Path) -> Iterator[None]:
    """Name the state file in what the system says of it, and what to do."""
    try:
        yield
    except OSError as error:
        cure = "fix that; the next run continues from this file"
        msg = f"{path}: {error.strerror}; {cure}"
        raise OSError(msg) from error
