"""Reading what ``strace`` saw: was a change on disk before it was acknowledged?"""

import re
from pathlib import Path

STRACE = (
    "strace",
    "-D",
    "-f",
    "-y",
    "-s",
    "100000",
    "-e",
    "trace=read,recvfrom,recvmsg,write,writev,sendto,sendmsg,pwrite64,fdatasync,fsync",
    "-o",
)
_LINE = re.compile(r"(?P<thread>\d+) +(?P<call>.*)", re.DOTALL)
_MARKER = re.compile(r"marked-\d+")
_ANSWER = re.compile(r"^(?:write|writev|sendto|sendmsg)\((\d+)<.*HTTP/1\.1 2\d\d")
_REQUEST = re.compile(r"^(?:read|recvfrom|recvmsg)\((\d+)<")
_LOG_WRITE = re.compile(r"^pwrite64\(\d+<[^>]*-wal>")
_LOG_SYNC = re.compile(r"^(?:fdatasync|fsync)\(\d+<[^>]*-wal>")


class Trace:
    """One pass over the calls of all threads, in the order in which they began and ended.

    Attributes
    ----------
    acknowledged
        Markers whose requests were answered with success.
    too_early
        Those of them that no sync, begun after their rows were written, had made durable.
    """

    def __init__(self, path: Path) -> None:
        self.acknowledged: list[str] = []
        self.too_early: list[str] = []
        self._asked: dict[str, set[str]] = {}
        self._written: set[str] = set()
        self._durable: set[str] = set()
        self._begun: dict[str, str] = {}
        self._syncing: dict[str, set[str]] = {}
        for line in path.read_text(errors="replace").splitlines():
            if (found := _LINE.match(line)) is not None:
                self._take(found["thread"], found["call"])

    def _take(self, thread: str, call: str) -> None:
        if call.endswith("<unfinished ...>"):
            self._begun[thread] = call.removesuffix("<unfinished ...>")
            self._begin(thread, call)
        elif call.startswith("<..."):
            self._end(thread, self._begun.pop(thread, "") + call)
        else:
            self._begin(thread, call)
            self._end(thread, call)

    def _begin(self, thread: str, call: str) -> None:
        if _LOG_SYNC.match(call):
            self._syncing[thread] = set(self._written)
        elif (found := _ANSWER.match(call)) is not None:
            self._answer(found[1])

    def _end(self, thread: str, call: str) -> None:
        if _LOG_SYNC.match(call):
            self._durable |= self._syncing.pop(thread)
        elif _LOG_WRITE.match(call):
            self._written |= set(_MARKER.findall(call))
        elif (found := _REQUEST.match(call)) is not None:
            self._asked.setdefault(found[1], set()).update(_MARKER.findall(call))

    def _answer(self, connection: str) -> None:
        for marker in self._asked.pop(connection, ()):
            self.acknowledged.append(marker)
            if marker not in self._durable:
                self.too_early.append(marker)
