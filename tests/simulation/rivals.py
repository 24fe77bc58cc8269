"""Two callers of one name at once: in a transaction, under a reader's name, and while retention stores."""

import asyncio
from contextlib import suppress
from datetime import timedelta

from reader_client import AsyncReader, AsyncReaderGroup, AsyncStreamClient
from tests.simulation.ledger import GroupBook, StreamBook, Written
from tests.simulation.world import Expected, Program, Work, World
from tidegauge.client.outage import ServiceUnreachableError
from tidegauge.client.transport import Transport
from tidegauge.errors import (
    InvalidTransitionError,
    OutcomeUnknownError,
    ReaderFencedError,
    TransactionFinishedError,
    UnknownGroupError,
    UnknownReaderError,
)
from tidegauge.lattice import covers
from tidegauge.wire.events import NDJSON
from tidegauge.wire.groups import ReaderBalance, ReaderPosition
from tidegauge.wire.transactions import EventsStaged

_PATIENCE = timedelta(seconds=300)
_ABOUT_A_COMMIT_S = 0.1
OF_READERS: Expected = (ReaderFencedError, UnknownReaderError, InvalidTransitionError)
"""What a reader may hear that was silent for too long, and was taken offline."""


async def stage_beside(
    program: Program, book: StreamBook, unit: str, stray: Written, line: bytes
) -> None:
    """Stage an event in a transaction that its owner commits meanwhile.

    It belongs to what is committed once it is acknowledged. Before, nobody knows.
    """
    book.written[stray.value] = stray._replace(unit="", key=stray.value, is_honest=False)
    transport = Transport(program.world.url(), retry_for=_PATIENCE)
    path = f"/v1/streams/{book.name}/transactions/{unit}/events"
    await asyncio.sleep(program.random.random() * _ABOUT_A_COMMIT_S)
    with suppress(OutcomeUnknownError, ServiceUnreachableError, TransactionFinishedError):
        await transport.request(
            "POST",
            path,
            answer=EventsStaged,
            body=line,
            headers={"content-type": NDJSON},
            retry=False,
        )
        book.written[stray.value] = book.written[stray.value]._replace(unit=unit)
    await transport.aclose()


async def take_over(reader: AsyncReader, name: str, book: GroupBook, by: AsyncReader) -> None:
    """Join under the name of a reader that lives; what that reads is confirmed no more."""
    epoch = reader.epoch
    await by.open()
    if epoch is not None:
        try:
            await reader.group.call(
                "POST",
                f"/readers/{name}/position",
                ReaderBalance,
                body=ReaderPosition(epoch=epoch, position={}),
            )
        except ReaderFencedError:
            pass
        else:
            said = f"{name} of epoch {epoch} confirms, and that of {by.epoch} has its name"
            book.stream.troubles.append(f"not fenced: {said}")
    with suppress(*OF_READERS):
        await reader.close()


def come_and_go(world: World, book: StreamBook) -> Work:
    """Create groups that read nothing, and delete them; meanwhile nothing of what they need goes.

    What went before a group was stored may lack in it: its creation began where the stream began then.
    """

    async def work(program: Program) -> None:
        client = AsyncStreamClient(world.url(), book.name, retry_for=_PATIENCE)
        count = 0
        while world.is_writing:
            count += 1
            name = f"{book.name}-{program.name}-{program.process}-{count}"
            group = AsyncReaderGroup(world.url(), name, retry_for=_PATIENCE)
            await group.create([book.name], start="earliest")
            begun = (await client.describe()).first_cut or {}
            start = (await group.state())[0].position(book.name)
            await _rest(program)
            info = await client.describe()
            topology, first = info.topology.to_topology(), info.first_cut or {}
            if covers(topology, start, begun) and not covers(topology, start, first):
                said = f"up to {first}, and {name} needs what is after {start}"
                book.troubles.append(f"truncated: {said}")
            with suppress(UnknownGroupError):  # a repetition
                await group.delete()
            await group.aclose()
            await _rest(program)
        await client.aclose()

    return work


async def _rest(program: Program) -> None:
    await asyncio.sleep(program.random.random() * (1.0 if program.world.is_calm else 0.2))
