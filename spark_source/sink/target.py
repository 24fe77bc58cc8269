"""The calls of a job about the stream that it writes."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, TypeVar

import pyarrow as pa
from pydantic import BaseModel

from spark_source.options.sink import Place
from tidegauge.client.blocks import Closing
from tidegauge.client.sync import LoopThread
from tidegauge.client.transport import Transport
from tidegauge.errors import TidegaugeError
from tidegauge.wire.events import ARROW, SEQUENCE_HEADER
from tidegauge.wire.transactions import (
    BatchAppended,
    BatchOfTransactions,
    BeginTransaction,
    EventsStaged,
    TransactionBegun,
    TransactionEnded,
)
from tidegauge.wire.writers import LeaveStream, RegisterWriter, WriterAnswer, WriterRegistered
from writer_client._columns import in_parts
from writer_client._events import encode_events

REQUEST_BYTES = 4 * 1_048_576
"""Of rows in one request; the service takes 16 MiB, and a chunk of its log has about these."""
_LEASE_MS = 3_600_000
"""Of what a task staged, until the slowest task of its batch is done."""
_ANY_SEGMENT = 0  # what is staged is routed at the commit

_A = TypeVar("_A", bound=BaseModel)


class Target(Closing):
    """A stream as a job writes it; every call means the same when it is repeated.

    Parameters
    ----------
    options
        Where it is.
    job
        The name of the job as a writer.
    incarnation
        From the job's registration; None of a job that never registers.
    """

    def __init__(self, options: Place, job: str, incarnation: int | None = None) -> None:
        self._path = f"/v1/streams/{options.stream}"
        self._job = job
        self._incarnation = incarnation
        self._transport = Transport(options.url, token=options.token)
        self._thread = LoopThread("tidegauge-sink")

    def close(self) -> None:
        """Close the connections."""
        self._thread.end(self._transport.aclose)

    def register(self) -> int:
        """Start a new incarnation of the job, which aborts what former ones left open."""
        path = f"/writers/{self._job}/register"
        answer = self._post(path, WriterRegistered, body=RegisterWriter.new())
        self._incarnation = answer.incarnation
        return answer.incarnation

    def leave(self) -> None:
        """Say that nobody needs to wait for the job."""
        body = LeaveStream(incarnation=self._incarnation)
        self._post(f"/writers/{self._job}/leave", WriterAnswer, body=body)

    def stage(self, events: Iterable[pa.RecordBatch | pa.Table]) -> str:
        """Stage events in a transaction of their own, which `publish` may name."""
        body = BeginTransaction(
            writer=self._job, incarnation=self._incarnation, timeout_ms=_LEASE_MS
        )
        transaction = self._post("/transactions", TransactionBegun, body=body).id
        path = f"/transactions/{transaction}/segments/{_ANY_SEGMENT}/events"
        try:
            for sequence, part in enumerate(events, start=1):
                headers = {"content-type": ARROW, SEQUENCE_HEADER: str(sequence)}
                self._post(path, EventsStaged, body=encode_events(part), headers=headers)
        except BaseException:
            with suppress(TidegaugeError):  # its lease ends it as well
                self.abort(transaction)
            raise
        return transaction

    def abort(self, transaction: str) -> None:
        """Drop what was staged."""
        self._post(f"/transactions/{transaction}/abort", TransactionEnded)

    def publish(
        self,
        number: int,
        events: pa.Table,
        transactions: Iterable[str] = (),
        *,
        note_time: int | None = None,
        ended: bool = False,
    ) -> BatchAppended:
        """Append a batch, note a time and end, all or nothing, once by its number.

        What is staged is published in the order in which it is named, the events behind it.
        """
        staged = list(transactions)
        if staged or events.nbytes > 2 * REQUEST_BYTES:
            if len(events):
                staged.append(self.stage(in_parts(events, REQUEST_BYTES)))
            body: BaseModel | bytes = BatchOfTransactions(transactions=staged)
            headers = {}
        else:
            body, headers = encode_events(events), {"content-type": ARROW}
        params = {
            "writer": self._job,
            "incarnation": self._incarnation,
            "note_time": note_time,
            "seal": "true" if ended else None,
        }
        path = f"/batches/{number}"
        return self._post(path, BatchAppended, body=body, headers=headers, params=params)

    def _post(self, path: str, answer: type[_A], **more: Any) -> _A:  # noqa: ANN401 (parts of a request)
        whole = self._path + path
        asked = self._transport.request("POST", whole, answer=answer, retry=True, **more)
        return self._thread.run(asked)
