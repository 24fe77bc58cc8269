"""Files that are read again when they change."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

_LOOK_S = 1.0


class Version(NamedTuple):
    """What differs when a file is another one."""

    modified_ns: int
    size: int
    inode: int


def versions_of(*paths: Path) -> tuple[Version | None, ...]:
    """Tell which files these are; None for one that is not there."""
    return tuple(_version(path) for path in paths)


async def watch(*looks: Callable[[], None]) -> None:
    """Look at each every second, until cancelled."""
    while True:
        await asyncio.sleep(_LOOK_S)
        for look in looks:
            await asyncio.to_thread(look)


def _version(path: Path) -> Version | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return Version(found.st_mtime_ns, found.st_size, found.st_ino)
