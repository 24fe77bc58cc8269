"""Ctrl-C at any moment: the work is a process of its own, and is killed with all that it started.

An exception instead would come out of whatever is being imported or waited for, or be lost there,
and what is to be ended in order may take minutes.
"""

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context, parent_process
from multiprocessing.util import get_temp_dir
from threading import Thread
from types import FrameType

_ENDINGS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
_GONE_S = 1.0  # what was killed is gone at once; one that nobody has asked for is still there


def supervise(
    work: Callable[[], int], *, stopped: str, tidy: Callable[[], None] = lambda: None
) -> int:
    """Run work in a process until it ends or is to end, and return the exit status.

    Parameters
    ----------
    work
        Returns the exit status; it is pickled. Its processes have to stay in its process group.
    stopped
        What to say when all is killed.
    tidy
        Removes what outlives the processes, then; temporary files go with this process.
    """
    came: list[int] = []
    # It removes the folder when it ends, and shares it: addresses of sockets in it have to be short.
    folder = get_temp_dir()
    process = get_context("spawn").Process(target=_run, args=(work, folder))

    def stop(number: int, _frame: FrameType | None) -> None:
        if not came:
            came.append(number)
            print("Stopping…", flush=True)
            process.kill()

    # Blocked, so that one that comes meanwhile finds the process, and not its imports.
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDINGS)
    former = {one: signal.signal(one, stop) for one in _ENDINGS}
    process.start()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDINGS)
    process.join()
    _kill_group(process.pid or 0)
    for one, handler in former.items():
        signal.signal(one, handler)
    if came:
        tidy()
        print(stopped, flush=True)
        return 130
    status = process.exitcode or 0
    return status if status >= 0 else 1


def _run(work: Callable[[], int], folder: str) -> None:
    """Do the work, in a session that Ctrl-C does not reach, with temporary files in a folder."""
    os.setsid()
    signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGINT})  # it came before, if at all
    Thread(target=_end_with_parent, daemon=True).start()
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    sys.exit(work())


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os.killpg(0, signal.SIGKILL)


def _kill_group(group: int) -> None:
    """Kill what is left of a process group, and wait until it writes no files any more."""
    deadline_s = time.monotonic() + _GONE_S
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
        while time.monotonic() < deadline_s:
            os.killpg(group, 0)
            time.sleep(0.01)
