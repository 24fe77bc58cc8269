"""Watches: what is asked of one stream, its writers or one group while a page shows them."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from tidegauge.errors import LogIsExternalError, UnknownStreamError
from tidegauge.event_time import END_OF_TIME
from tidegauge.explain.states import is_holding
from tidegauge.wire.groups import GroupDetails, GroupWindows
from tidegauge.wire.streams import MarkInfo, MarkList, StreamInfo
from tidegauge.wire.transactions import TransactionList
from tidegauge.wire.writers import Watermark, WriterInfo, WriterList
from tidegauge_dashboard.asking import Asking, Question
from tidegauge_dashboard.history import History, Holders, Samples
from tidegauge_dashboard.page.group import farthest_first
from tidegauge_dashboard.page.pace import TUBE_MS
from tidegauge_dashboard.page.tabs import SLOWEST

_MARKS_S, _WAIT_MS = 1.0, 5_000
_EXPLAIN_S, _WRITERS_S, _DESCRIBE_S, _TRANSACTIONS_S = 1.5, 3.0, 3.0, 5.0
_GROUP_S = 2.0
_PAGE = 1_000
_FIRST_MARKS = 2 * _PAGE
_CUTS = 50
_DRAWN = 8
_LINE_MS = 15_000
"""A line goes on from one answer to the next, also of a service that answers slowly."""


class Watch:
    """Questions that are asked while a page shows their answers.

    Attributes
    ----------
    questions
        How they fare.
    seen_ms
        The service's clock at the answer that is drawn; 0 before the first.
    """

    def __init__(self, asking: Asking) -> None:
        self.asking = asking
        self.seen_ms = 0
        self.questions: list[Question] = []
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to ask."""
        raise NotImplementedError

    def stop(self) -> None:
        """Ask no more."""
        for task in self._tasks:
            task.cancel()

    def _repeat(
        self, ask: Callable[[], Awaitable[None]], pause_s: float, *, waits: bool = False
    ) -> None:
        question = Question()
        self.questions.append(question)
        repeated = self.asking.repeat(question, ask, lambda: pause_s, waits=waits)
        self._tasks.append(asyncio.create_task(repeated))

    @property
    def refusal(self) -> str | None:
        """Why the service refuses to answer; None if it answers all."""
        return next((one.refusal for one in self.questions if one.refusal), None)


class StreamWatch(Watch):
    """One stream: its marks as they come, why its watermark stands, what it is made of.

    Attributes
    ----------
    stream
        ``scope/stream``.
    info, clock
        Its description, and the explanation of its watermark.
    seen_ms
        The service's clock when it explained.
    transactions
        Those that are open; None on external logs.
    marks
        The newest, with their cuts.
    revisions
        The revisions of its marks, over wall clock.
    watermarks, fronts
        What the watermark was by its marks, and how far the first writer had noted by the
        explanations, over wall clock: `upper` of a mark counts only writers behind its cut.
    holders
        Who held it, over wall clock.
    """

    def __init__(self, asking: Asking, stream: str, holders: Holders | None) -> None:
        super().__init__(asking)
        self.stream = stream
        self.holders = holders or Holders()
        self.info: StreamInfo | None = None
        self.clock: Watermark | None = None
        self.transactions: TransactionList | None = None
        self.stream_id: str | None = None
        self._begin()

    def _begin(self) -> None:
        self.marks: deque[MarkInfo] = deque(maxlen=_CUTS)
        self.revisions = History(TUBE_MS)
        self.watermarks = History()
        self.fronts = Samples()
        self._revision: int | None = None
        self._waits = False

    def start(self) -> None:
        """Begin to ask."""
        path = f"/v1/streams/{self.stream}"
        self._repeat(lambda: self._explain(path), _EXPLAIN_S)
        self._repeat(lambda: self._describe(path), _DESCRIBE_S)
        self._repeat(lambda: self._read_marks(path), _MARKS_S, waits=True)
        self._repeat(lambda: self._list_transactions(path), _TRANSACTIONS_S)

    def _meet(self, stream_id: str) -> None:
        """Drop what belongs to a stream that was deleted and made again."""
        if self.stream_id not in {None, stream_id}:
            self.holders = Holders()
            self._begin()
        self.stream_id = stream_id

    async def _explain(self, path: str) -> None:
        clock = await self.asking.get("watermark", f"{path}/watermark", Watermark)
        self._meet(clock.stream_id)
        self.clock, self.seen_ms = clock, self.asking.now_ms()
        explanation = clock.explanation
        holds = is_holding(explanation.reason, explanation)
        first = explanation.holders[0] if explanation.holders else None
        stood_ms = explanation.stood_ms
        self.holders.add(
            self.seen_ms,
            first.writer if first and holds else None,
            stood_since_ms=0 if stood_ms is None else self.seen_ms - stood_ms,
        )
        if first is not None and first.stand is not None:
            newest, noted = self.fronts.newest, first.stand + (first.behind_ms or 0)
            front = noted if newest is None else max(newest, noted)
            self.fronts.add(self.seen_ms, front, stayed=front == newest)

    async def _describe(self, path: str) -> None:
        info = await self.asking.get("stream", path, StreamInfo)
        self._meet(info.stream_id)
        self.info = info

    async def _read_marks(self, path: str) -> None:
        """Wait for the next marks; the first time, read those of the last hour, as far as is cheap."""
        # whoever was refused, or heard nothing, learns at once that there is an answer again
        wait_ms = _WAIT_MS if self._waits else 0
        self._waits = False
        if self._revision is None:
            info = await self.asking.get("stream", path, StreamInfo)
            self._meet(info.stream_id)
            self._revision = max(0, info.revision - _FIRST_MARKS)
        try:
            found = await self.asking.get(
                "marks",
                f"{path}/marks",
                MarkList,
                after=self._revision,
                limit=_PAGE,
                wait_ms=wait_ms,
            )
        except UnknownStreamError:
            self._revision = None  # one that is made again counts anew
            raise
        self._meet(found.stream_id)
        self._waits = True
        for mark in found.marks:
            self._take_mark(mark, found.now_ms)
        if len(found.marks) == _PAGE:
            await self._read_marks(path)

    def _take_mark(self, mark: MarkInfo, now_ms: int) -> None:
        self._revision = mark.revision
        self.marks.append(mark)
        at_ms = now_ms if mark.marked_ms is None else mark.marked_ms
        self.revisions.add(at_ms, mark.revision)
        if mark.lower != END_OF_TIME:
            self.watermarks.add(at_ms, mark.lower)

    async def _list_transactions(self, path: str) -> None:
        try:
            self.transactions = await self.asking.get(
                "transactions", f"{path}/transactions", TransactionList, state="open"
            )
        except LogIsExternalError:
            self.transactions = None


class WritersWatch(Watch):
    """The slowest writers of a stream, or those whose names begin with something.

    Attributes
    ----------
    writers
        What was answered; None before.
    asked_ms
        When, by the service's clock.
    stands
        Where those of `writers` stood, over wall clock, by name.
    """

    def __init__(self, asking: Asking, stream: str, prefix: str) -> None:
        super().__init__(asking)
        self.stream = stream
        self.prefix = prefix
        self.writers: list[WriterInfo] | None = None
        self.asked_ms = 0
        self.stands: dict[str, Samples] = {}
        self._stream_id: str | None = None

    def start(self) -> None:
        """Begin to ask."""
        self._repeat(self._ask, _WRITERS_S)

    async def _ask(self) -> None:
        how: dict[str, Any] = (
            {"order": "name", "prefix": self.prefix} if self.prefix else {"order": "slowest"}
        )
        found = await self.asking.get(
            "writers",
            f"/v1/streams/{self.stream}/writers",
            WriterList,
            positions="false",
            limit=SLOWEST,
            **how,
        )
        if found.stream_id != self._stream_id:
            self._stream_id, self.stands = found.stream_id, {}
        self.writers, self.asked_ms = found.writers, found.now_ms
        self.follow(found.writers, found.now_ms)

    def follow(self, writers: list[WriterInfo], now_ms: int) -> None:
        """Go on with the lines of all that are listed: what is not followed has no line."""
        former, self.stands = self.stands, {}
        for one in writers:
            if one.stand is not None:
                line = former.get(one.writer) or Samples(apart_ms=_LINE_MS)
                line.add(now_ms, one.stand)
                self.stands[one.writer] = line


class GroupWatch(Watch):
    """One reader group: who owns what, and the windows in its streams.

    Attributes
    ----------
    details, windows
        What the service says.
    streams
        The description of the streams in which it is farthest behind: their segments and ends.
    """

    def __init__(self, asking: Asking, group: str) -> None:
        super().__init__(asking)
        self.group = group
        self.details: GroupDetails | None = None
        self.windows: GroupWindows | None = None
        self.streams: dict[str, StreamInfo] = {}

    def start(self) -> None:
        """Begin to ask."""
        self._repeat(self._ask, _GROUP_S)

    async def _ask(self) -> None:
        path = f"/v1/reader-groups/{self.group}"
        details = await self.asking.get("group", path, GroupDetails)
        windows = await self.asking.get("windows", f"{path}/time-window", GroupWindows)
        streams = {
            one.stream: await self.asking.get("stream", f"/v1/streams/{one.stream}", StreamInfo)
            for one in farthest_first(windows.windows)[:_DRAWN]
        }
        self.details, self.windows, self.streams = details, windows, streams
        self.seen_ms = windows.now_ms
