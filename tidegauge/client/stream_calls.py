"""The calls about one stream that everybody makes: readers, operators and the command line."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

from tidegauge.client.outage import ServiceUnreachableError
from tidegauge.errors import (
    LogIsExternalError,
    TidegaugeError,
    UnknownStreamError,
    UnknownStreamSegmentError,
)
from tidegauge.event_time import (
    check_span,
    check_unit,
    describe_event_time,
    describe_span,
    to_event_time,
)
from tidegauge.names import StreamName
from tidegauge.positions import format_position
from tidegauge.scaling import equal_parts
from tidegauge.topology import KeyRange, Position
from tidegauge.wire.streams import (
    ChangeStream,
    CreateStream,
    MarkList,
    MarksAtPosition,
    MarksAtTime,
    ScaledStream,
    ScaleStream,
    SealedStream,
    SealStream,
    StreamInfo,
    TruncatedStream,
    TruncateStream,
)
from tidegauge.wire.values import Answer
from tidegauge.wire.writers import ExplanationInfo, Watermark, WriterInfo, WriterList

if TYPE_CHECKING:  # whoever has one has loaded it
    from tidegauge.client.transport import Transport

_A = TypeVar("_A", bound=BaseModel)
_POLL_MS = 30_000
"""How long one long poll of the marks lasts: the most that the service takes."""
_LAST_WORD_S = 5.0
"""How long a service may take to say why a time was not reached: a busy one, some seconds."""


class WatermarkTimeoutError(TidegaugeError, TimeoutError):
    """The watermark did not reach a time while it was waited for.

    Attributes
    ----------
    stream
        ``scope/stream``.
    time
        What was waited for, ms.
    watermark
        Where it stands, ms; None before the first mark.
    explanation
        Why it stands there.
    """

    def __init__(self, time: int, timeout: timedelta, seen: Watermark) -> None:
        self.stream: str = seen.stream
        self.time = time
        self.watermark: int | None = seen.watermark
        self.explanation: ExplanationInfo = seen.explanation
        waited = describe_span(round(timeout / timedelta(milliseconds=1)))
        super().__init__(
            f"{seen.stream} is not complete below {describe_event_time(time)} after {waited}. "
            f"{seen.explanation.in_full}"
        )


class StreamCalls:
    """The HTTP calls about one stream: that of the id, otherwise that of the first answer."""

    def __init__(
        self, transport: "Transport", stream: StreamName, *, stream_id: str | None = None
    ) -> None:
        self._transport = transport
        self.stream = stream
        self.stream_id = stream_id

    async def create(self, /, **settings: Any) -> StreamInfo:  # noqa: ANN401 (fields of CreateStream)
        """Create the stream; repeating the call changes nothing.

        Parameters
        ----------
        **settings
            By the names that the API gives them, such as ``segments=4`` or
            ``scaling={"events_per_s": 1000}``; what is left out has its default.

        Raises
        ------
        StreamExistsError
            If it is there with other settings than the given ones.
        LogIsExternalError
            If the log is external, and a policy is to scale it; so does `configure`.
        ValueError
            If a setting is unknown, or cannot have its value; so does `configure`.
        ForbiddenError
            If the token may not operate.
        """
        wanted = CreateStream.of_settings(**settings)
        anyone: dict[str, Any] = {"stream_id": None}
        created = await self._ask("PUT", "", StreamInfo, retry=True, params=anyone, body=wanted)
        self.stream_id = created.stream_id
        return created

    async def configure(self, /, **settings: Any) -> StreamInfo:  # noqa: ANN401 (fields of ChangeStream)
        """Change some settings; what is left out stays as it is.

        Parameters
        ----------
        **settings
            Those of `create`, but for ``segments`` and ``log``, which are fixed.

        Raises
        ------
        UnknownStreamError
            If there is no such stream.
        ImmutableSettingError
            If a setting is fixed.
        ForbiddenError
            If the token may not operate.
        """
        # Whatever the others are by now: nothing is changed that is not named.
        anyhow = {"if-match": "*"}
        change = ChangeStream.of_settings(**settings)
        return await self._ask("PATCH", "", StreamInfo, retry=True, body=change, headers=anyhow)

    async def delete(self) -> None:
        """Delete the stream with its events, marks and writers.

        The race: an answer is lost, and while the call is repeated somebody creates a stream of
        this name. So the one that is there now is read first, and only that one is deleted.

        Raises
        ------
        UnknownStreamError
            If there is no such stream.
        ForbiddenError
            If the token may not operate.
        """
        await self.describe()
        with suppress(UnknownStreamError):  # it is gone: the answer to a first try was lost
            await self._ask("DELETE", "", Answer, retry=True)
        self.stream_id = None

    async def scale(
        self,
        seal: Iterable[int],
        ranges: Iterable[tuple[float, float]],
        *,
        topology_revision: int | None = None,
    ) -> ScaledStream:
        """Seal segments and let others own their keys; repeating the call changes nothing.

        Parameters
        ----------
        seal
            Growing segments of the embedded log.
        ranges
            Start and end (exclusive) of the key range of each segment that continues them:
            together exactly what those own.
        topology_revision
            Only if the topology is at this revision.

        Raises
        ------
        InvalidRequestError
            If the ranges leave a gap, overlap, or go beyond what is sealed.
        UnknownStreamSegmentError
            If there is no such segment.
        TopologyChangedError
            If a segment is sealed already, or the topology is at another revision.
        SegmentLimitError
            If there would be too many segments.
        LogIsExternalError
            If the log is external: its owner decides how many partitions it has.
        ForbiddenError
            If the token may not operate.
        """
        body = ScaleStream.of_settings(
            seal=list(seal), ranges=list(ranges), topology_revision=topology_revision
        )
        return await self._ask("POST", "/scale", ScaledStream, retry=True, body=body)

    async def split(self, segment: int, parts: int = 2) -> ScaledStream:
        """Split a segment into some that own equal parts of its keys; see `scale`."""
        if parts < 1:
            msg = f"parts={parts}: a segment is split into 1 or more"
            raise ValueError(msg)
        (whole,) = await self._owned([segment])
        return await self.scale([segment], equal_parts(whole, parts))

    async def merge(self, segments: Iterable[int]) -> ScaledStream:
        """Merge neighbouring segments into one that owns all of their keys; see `scale`."""
        numbers = list(segments)
        owned = await self._owned(numbers)
        whole = (
            min(key_range.low for key_range in owned),
            max(key_range.high for key_range in owned),
        )
        return await self.scale(numbers, [whole])

    async def truncate(
        self,
        *,
        cut: Position | None = None,
        time: int | datetime | None = None,
        force: bool = False,
    ) -> TruncatedStream:
        """Drop the first events of the stream; dropped events do not return.

        Parameters
        ----------
        cut
            A stream cut, or a position that means one: what lies before it goes. What lies
            before the present first cut changes nothing.
        time
            Instead of a cut: in ms, or an aware datetime (floored to ms). In each segment all
            before the first event at or above it goes.
        force
            Drop also what reader groups still need.

        Raises
        ------
        EventsNeededError
            If a reader group, or a named checkpoint of one, still needs events before the cut.
        InvalidPositionError
            If the cut lies outside the stream.
        LogIsExternalError
            If the log is external: its owner decides how long events are kept.
        ForbiddenError
            If the token may not operate.
        """
        at = None if time is None else to_event_time(time)
        body = TruncateStream.of_settings(cut=cut, time=at, force=force)
        return await self._ask("POST", "/truncate", TruncatedStream, retry=True, body=body)

    async def seal(self, position: Position | None = None) -> SealedStream:
        """End the stream with a final mark; repeating the call changes nothing.

        Parameters
        ----------
        position
            Of an external log: the end of each partition.

        Raises
        ------
        InvalidPositionError
            If an external log is sealed without its position, or below a mark's cut.
        ForbiddenError
            If the token may not operate.
        """
        body = SealStream(position=position)
        return await self._ask("POST", "/seal", SealedStream, retry=True, body=body)

    async def _owned(self, segments: Iterable[int]) -> list[KeyRange]:
        topology = (await self.describe()).topology.to_topology()
        ranges = []
        for number in segments:
            if number not in topology:
                raise UnknownStreamSegmentError(number)
            owned = topology[number].key_range
            if owned is None:
                raise LogIsExternalError(str(self.stream))
            ranges.append(owned)
        return ranges

    async def describe(self) -> StreamInfo:
        """Describe the stream: settings, topology, watermark and tail.

        Raises
        ------
        UnknownStreamError
            If there is none.
        StreamReplacedError
            If it is another one than before; every method may raise it.
        ServiceUnreachableError
            If the service does not answer; every method may raise it.
        """
        return await self._get("", StreamInfo)

    async def explain(self) -> Watermark:
        """Ask where the watermark stands, and why."""
        watermark = await self._get("/watermark", Watermark)
        return watermark.addressed(self._transport.url)

    async def marks_at_time(self, time: int) -> MarksAtTime:
        """Find where to start and where to stop for a time, ms."""
        return await self._get("/marks/at", MarksAtTime, time=time)

    async def marks_at_position(self, position: Position) -> MarksAtPosition:
        """Find the time window at a position."""
        return await self._get("/marks/at", MarksAtPosition, position=format_position(position))

    async def wait_until(
        self,
        time: int | datetime,
        timeout: timedelta | None = None,  # noqa: ASYNC109 (it ends in an explanation)
    ) -> int:
        """Wait until every event below a time has arrived: until the watermark has reached it.

        Parameters
        ----------
        time
            In ms, or an aware datetime (rounded up to ms). A sealed stream has reached them all.
        timeout
            How long; None for as long as it takes.

        Returns
        -------
        int
            The watermark, ms.

        Raises
        ------
        WatermarkTimeoutError
            If it was not reached in time; it says why.
        ServiceUnreachableError
            If the service does not answer, neither then.
        TypeError
            If the timeout is no timedelta.
        ValueError
            If the time looks like seconds, which have always been reached already.
        """
        wanted = to_event_time(time, up=True)
        patience_s = None
        if timeout is not None:
            patience_s = check_span("timeout", timeout).total_seconds()
        try:
            async with asyncio.timeout(patience_s):
                return await self._reach(wanted)
        except TimeoutError:
            seen = await self._explain_soon()
        if seen.watermark is not None and seen.watermark >= wanted:
            return seen.watermark
        raise WatermarkTimeoutError(wanted, timeout or timedelta(0), seen)

    async def _explain_soon(self) -> Watermark:
        """Explain while somebody's time is up: an outage is not waited for any longer."""
        try:
            async with asyncio.timeout(_LAST_WORD_S):
                return await self.explain()
        except TimeoutError:
            reason = f"none within {_LAST_WORD_S:g} s after the timeout"
            raise ServiceUnreachableError(self._transport.url, reason) from None

    async def _reach(self, wanted: int) -> int:
        info = await self.describe()
        if info.config.max_future_skew_ms is not None:
            check_unit(wanted)
        watermark, revision = info.watermark, info.revision
        while watermark is None or watermark < wanted:
            page = await self._get(
                "/marks", MarkList, after=revision, limit=1, wait_ms=_POLL_MS
            )
            watermark = page.watermark
            revision = page.marks[-1].revision if page.marks else revision
        return watermark

    async def _writers(self, **params: Any) -> AsyncIterator[WriterInfo]:  # noqa: ANN401 (query values)
        """List the writers, page by page."""
        cursor: str | None = None
        while True:
            page = await self._get("/writers", WriterList, limit=1_000, cursor=cursor, **params)
            for one in page.writers:
                yield one
            cursor = page.cursor
            if cursor is None:
                return

    async def _get(self, path: str, answer: type[_A], **params: Any) -> _A:  # noqa: ANN401 (as above)
        return await self._ask("GET", path, answer, retry=True, params=params)

    async def _ask(
        self,
        method: str,
        path: str,
        answer: type[_A],
        *,
        retry: bool,
        params: Mapping[str, Any] | None = None,
        body: BaseModel | bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> _A:
        message = await self._transport.request(
            method,
            f"/v1/streams/{self.stream}{path}",
            answer=answer,
            params={"stream_id": self.stream_id, **(params or {})},
            body=body,
            headers=headers,
            retry=retry,
        )
        if self.stream_id is None:
            self.stream_id = getattr(message, "stream_id", None)
        return message
