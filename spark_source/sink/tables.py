"""Appending a query's batches to a table, each once, with a note of until when it is complete."""

import threading
from contextlib import suppress

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)
from pyspark.sql.streaming.query import StreamingQuery

from spark_source.checkpoints.checkpoint import Checkpoint
from spark_source.sink.engines import make_table
from spark_source.sink.job import Plan, TableJob, TableOptions


class TableSink:
    """Commits the batches of one query, for ``foreachBatch``.

    A batch without rows whose time is all that is new waits for ``note_every``, and is then
    committed by a timer, unless another batch comes before.
    """

    def __init__(self, options: TableOptions) -> None:
        self._options = options
        self._engine = options.engine()
        self._job: TableJob | None = None

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Commit a batch; once, also where Spark repeats it."""
        if self._job is None:
            make_table(self._engine, frame.sparkSession, frame.schema)
        job = self._opened(number)
        with job.turn():
            plan = job.plan(frame, number)
            if plan.is_known:
                # A known transaction would not run it, and its state would not be stored.
                frame.write.format("noop").mode("overwrite").save()
            else:
                self._append(job, frame, plan)
            job.note_to_service(frame.sparkSession, number)

    def plan(self, frame: DataFrame, number: int) -> Plan:
        """Decide about a batch for a writer of the user's own."""
        job = self._opened(number)
        plan = job.plan(frame, number)
        if not plan.is_known:
            job.begin(number)
        return plan

    def close(self) -> None:
        """Neither commit nor beat any more."""
        if self._job is not None:
            self._job.close()

    def close_after(self, query: StreamingQuery) -> None:
        """Close when a query has ended, though the driver lives on."""

        def wait() -> None:
            with suppress(Exception):  # the query's own, or the session is gone
                query.awaitTermination()
            self.close()

        threading.Thread(target=wait, name="tidegauge-table", daemon=True).start()

    def _append(self, job: TableJob, frame: DataFrame, plan: Plan) -> None:
        frame.persist()
        try:
            rows, late = self._counted(frame, plan.former)
            note = plan.note.model_copy(update={"late": late})
            if rows:
                job.commit(frame, note)
            elif job.says_more(note, plan.former):
                job.commit_soon(frame.sparkSession, frame.schema, note)
        finally:
            frame.unpersist()

    def _counted(self, frame: DataFrame, former: int | None) -> tuple[int, int]:
        """Run the frame, and count its rows and those below what the table was complete until."""
        late = F.lit(None).cast("boolean")
        if former is not None and self._options.event_time is not None:
            late = F.unix_millis(F.expr(self._options.event_time)) < former
        counted = frame.agg(F.count(F.lit(1)), F.count_if(late)).first()
        assert counted is not None  # noqa: S101 (an aggregate has a row)
        return counted[0], counted[1]

    def _opened(self, number: int) -> TableJob:
        if self._job is None:
            log, checkpoint = self._options.log(), Checkpoint(self._options.checkpoint)
            self._job = TableJob(self._options, self._engine, log, checkpoint, number=number)
        return self._job
