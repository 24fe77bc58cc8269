"""Without a journal: for databases that several controllers share."""

from controller.commit.batch import Batch
from controller.store.aggregations import write_changes
from controller.store.changes import StreamChanges
from controller.store.journal.change_store import ChangeStore


class Direct(ChangeStore):
    """Stores everything in the tables at once, where every controller finds it."""

    def add(self, batch: Batch, changes: StreamChanges) -> None:
        """Store what happened to a stream."""
        batch.write_together(write_changes, changes, rows=changes.count)

    def recent(self, stream_key: int) -> StreamChanges:
        """Tell that everything is in the tables."""
        return StreamChanges.none(stream_key)

    def move(self, batch: Batch, stream_key: int) -> None:
        """Do nothing: it is there."""

    def drop(self, batch: Batch, stream_key: int) -> None:
        """Do nothing: nothing is anywhere else."""
