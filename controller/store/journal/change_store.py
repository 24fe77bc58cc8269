"""What a stream asks of whatever stores its changes."""

from abc import ABC, abstractmethod

from controller.commit.batch import Batch
from controller.store.changes import StreamChanges


class ChangeStore(ABC):
    """Stores what happened to the aggregations of streams."""

    @abstractmethod
    def add(self, batch: Batch, changes: StreamChanges) -> None:
        """Store what happened to a stream; at most once a batch for each."""

    @abstractmethod
    def recent(self, stream_key: int) -> StreamChanges:
        """Tell what is stored of a stream, but not in its tables; not to be changed."""

    @abstractmethod
    def move(self, batch: Batch, stream_key: int) -> None:
        """Store in the tables what is not there yet of a stream."""

    @abstractmethod
    def drop(self, batch: Batch, stream_key: int) -> None:
        """Let a stream go that is deleted."""
