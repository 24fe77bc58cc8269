"""The service in this process, for what cannot be brought about over HTTP."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pyarrow as pa
from sqlalchemy import Connection

from controller.configuration import ServeSettings
from controller.factory import Parts
from controller.log.codec import encode_chunks
from controller.log.routing import route
from controller.log.storage import AppendOutcome
from controller.log.times import EventTimes
from controller.streams import appends as appending
from controller.streams import lifecycle, reports
from controller.streams.reading import check_range, open_read
from controller.streams.stream import StreamState
from tests.service.in_process import in_process
from tests.service.log_api import Event, arrow_of, events_of
from tidegauge.aggregation.outcomes import Registration
from tidegauge.errors import SegmentSealedError, UnavailableError
from tidegauge.names import StreamName
from tidegauge.topology import Position
from tidegauge.wire.streams import CreateStream
from tidegauge.wire.writers import RegisterWriter

_T = TypeVar("_T")
NAME = StreamName("tests", "log")
REFUSAL = "the test says so"
APPEND_MS = 1_700_000_000_000


@asynccontextmanager
async def serving(database_url: str) -> AsyncIterator["LogService"]:
    """A service over a database, closed in the end."""
    async with in_process(ServeSettings(database_url=database_url)) as (app, _):
        yield LogService(app.parts)


def run_with(database_url: str, work: Callable[["LogService"], Coroutine[Any, Any, _T]]) -> _T:
    """Run something with a service of its own."""

    async def run() -> _T:
        async with serving(database_url) as log:
            return await work(log)

    return asyncio.run(run())


class LogService:
    """One stream of a service."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts

    @property
    def state(self) -> StreamState:
        return self.parts.registry.get(NAME)

    async def create(self, *, segments: int) -> None:
        wanted = CreateStream(segments=segments, log="embedded", mark_interval_ms=0)
        registry = self.parts.registry
        await self._do(lifecycle.create_stream, registry, NAME, wanted, only_create=True)

    async def _do(self, decide: Callable[..., _T], *values: Any, **named: Any) -> _T:
        return await self.parts.sequencer.submit(lambda batch: decide(batch, *values, **named))

    async def register(self, writer: str) -> Registration:
        return await self._do(reports.register, self.state, writer, RegisterWriter())

    async def append(
        self,
        writer: str,
        incarnation: int,
        segment: int,
        sequence: int,
        events: list[Event],
    ) -> AppendOutcome:
        batch = batch_of(events)
        outcome = await self._do(
            appending.append_arrow,
            state=self.state,
            segment=segment,
            events=encode_chunks(batch, writer=writer, append_time=APPEND_MS),
            times=EventTimes.of(batch),
            writer=writer,
            incarnation=incarnation,
            sequence=sequence,
        )
        if isinstance(outcome, SegmentSealedError):
            raise outcome
        return outcome

    async def append_by_key(self, events: list[Event], key: str) -> Position:
        topology = self.state.aggregator.topology
        times = EventTimes.of(batch_of(events))
        routed = route(
            topology, batch_of(events), writer=None, append_time=APPEND_MS, times=times
        )
        return await appending.append_once_by_key(
            self.parts.sequencer,
            self.parts.database,
            self.state,
            routed,
            appending.Source(),
            idempotency_key=key,
            body=repr(events).encode(),
        )

    async def read(self, segment: int, start: int = 0) -> tuple[int, list[Event]]:
        first, body = await self.open_read(segment, start)
        return first, stored_events([part async for part in body])

    async def open_read(self, segment: int, start: int = 0) -> tuple[int, AsyncIterator[bytes]]:
        bounds = check_range(self.state, segment, start, None)
        return await open_read(self.parts.database, self.state, segment, *bounds)

    def fail_next_write(self) -> None:
        """Let the next transaction do its work and then fail, as a full disk would."""
        database = self.parts.database
        write = database.write

        async def failing(work: Callable[[Connection], None], *, rows: int) -> None:
            database.write = write  # type: ignore[method-assign]

            def refused(connection: Connection) -> None:
                work(connection)
                raise UnavailableError(REFUSAL)

            await write(refused, rows=rows)

        database.write = failing  # type: ignore[method-assign]


def batch_of(events: list[Event]) -> pa.RecordBatch:
    with pa.ipc.open_stream(arrow_of(events)) as reader:
        batches = reader.read_all().combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], reader.schema)


def stored_events(parts: list[bytes]) -> list[Event]:
    with pa.ipc.open_stream(b"".join(parts)) as reader:
        return events_of(reader.read_all())
