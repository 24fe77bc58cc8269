"""Files that are read again when they change."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from tidegauge.errors import TidegaugeError

_CHECK_S = 1.0
_log = logging.getLogger(__name__)
_Content = TypeVar("_Content")


class Rereading(Generic[_Content]):
    """Reads files again after they changed, and takes what they say.

    They are to be read for the first time after this was made; what is ``kept`` in force while
    they cannot be read is said in the log.

    The race: they are read while somebody writes them. One that is empty for a moment, or ends
    between two entries, may make sense and yet say what nobody meant. So a change counts when
    two checks in a row saw it, and reading left it as it was. What could not be read is tried
    again at every check, since not every cure shows in the file.
    """

    def __init__(
        self,
        *paths: Path,
        read: Callable[[], _Content],
        take: Callable[[_Content], None],
        kept: str,
    ) -> None:
        self._paths = paths
        self._read = read
        self._take = take
        self._kept = kept
        self._taken = self._seen = [_version(path) for path in paths]
        self._logged: object = None
        """The problem that was logged last, and of which files."""

    def check(self) -> None:
        """Read the files again if they changed and change no more."""
        before, self._seen = self._seen, [_version(path) for path in self._paths]
        if self._seen == self._taken:
            if self._logged is not None:
                names = " and ".join(map(str, self._paths))
                _log.info("%s can be read again, unchanged", names)
            self._logged = None
        elif self._seen == before:
            self._read_again()

    def _read_again(self) -> None:
        try:
            content = self._read()
        except TidegaugeError as error:
            problem = (self._seen, str(error))
            if problem != self._logged:
                self._logged = problem
                _log.error("%s; %s", error, self._kept)
            return
        if [_version(path) for path in self._paths] == self._seen:
            self._take(content)
            self._taken = self._seen
            self._logged = None


async def watch(*checks: Callable[[], None]) -> None:
    """Check each file every second, until cancelled."""
    while True:
        await asyncio.sleep(_CHECK_S)
        for check in checks:
            await asyncio.to_thread(check)


def _version(path: Path) -> tuple[int, ...] | None:
    """Return what differs when a file is another one, or another user may read it."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
