"""Running a command once for each interval of a work list; what is left is kept in a file."""

import fcntl
import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeAlias

from tidegauge_cli.service import warn

Task: TypeAlias = dict[str, str]
"""What fills the placeholders of a command: ``start``, ``end``, ``version`` and the like."""
ListTasks: TypeAlias = Callable[[str | None], tuple[Sequence[Task], str | None]]
"""Lists tasks behind a cursor, and gives the next cursor."""


@dataclass
class State:
    """What a state file has: the cursor, and what is left of all lists up to it.

    They are one file: a cursor that is stored before its list loses it when the machine dies, and
    one that is stored behind it runs the list again.
    """

    path: Path
    cursor: str | None = None
    left: list[Task] = field(default_factory=list)

    @classmethod
    def load(cls, path: Path) -> "State":
        """Read a file; an empty state if there is none.

        Raises
        ------
        ValueError
            If it is none that `save` wrote.
        """
        if not path.exists():
            return cls(path)
        try:
            return cls(path, **json.loads(path.read_text()))
        except (TypeError, ValueError):
            msg = f"{path} is no state file; name another one, or remove it to begin anew"
            raise ValueError(msg) from None

    def add(self, tasks: Sequence[Task], cursor: str | None) -> None:
        """Add a list; an interval that is left takes the newer version."""
        listed = {(task["start"], task["end"]): task for task in (*self.left, *tasks)}
        self.left, self.cursor = list(listed.values()), cursor

    def save(self) -> None:
        """Replace the file as a whole, on the disk."""
        content = asdict(self)
        del content["path"]
        written = self.path.with_name(f"{self.path.name}.new")
        with written.open("w") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        written.replace(self.path)


def run_all(path: Path, list_tasks: ListTasks, command: Sequence[str]) -> bool:
    """Run a command for all that is left and new; return whether each succeeded.

    Nothing is done while another process does it. What fails stays for the next time.

    Raises
    ------
    ValueError
        If the file is no state file.
    """
    with _locked(path) as lock:
        if lock is None:
            return True
        state = State.load(path)
        state.add(*list_tasks(state.cursor))
        state.save()
        for task in list(state.left):
            if _run(command, task, lock):
                state.left.remove(task)
                state.save()
        return not state.left


def _run(command: Sequence[str], task: Mapping[str, str], lock: int) -> bool:
    words = list(command)
    for name, value in task.items():
        words = [word.replace(f"{{{name}}}", value) for word in words]
    # The command holds the lock, too: if this process is killed, it is not started twice at once.
    status = subprocess.run(words, pass_fds=[lock], check=False).returncode
    if status:
        place = f"{task['start']} to {task['end']}"
        warn(f"{words[0]} failed with status {status} for {place}; the next run tries it again")
    return not status


@contextmanager
def _locked(path: Path) -> Iterator[int | None]:
    """Lock a state file while it is worked off; None if somebody else does."""
    with path.with_name(f"{path.name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield file.fileno()
