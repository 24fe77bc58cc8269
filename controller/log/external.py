"""The log of a stream somewhere else, Kafka say: the service knows what writers report of it."""

from collections.abc import Iterable

from controller.commit.batch import Batch
from tidegauge.errors import InvalidRequestError
from tidegauge.topology import Position, Topology


class ExternalLog:
    """Answers as `EmbeddedLog` does, for a log of which nothing is stored."""

    tails = None

    def position_of(
        self,
        position: Position | None,
        tails: Position | None,  # noqa: ARG002 (there are none)
        growing: Iterable[int],  # noqa: ARG002 (nobody knows where they end)
    ) -> Position:
        """Return the position as it is; a report without one says nothing."""
        if position is None:
            reason = "the log is external, so only the writer knows how far it has written"
            raise InvalidRequestError.of("position", f"send it: {reason}")
        return position

    def end(self, topology: Topology, position: Position | None) -> Position:  # noqa: ARG002 (the aggregation checks it)
        """Return what the caller names that seals the stream."""
        if position is None:
            reason = "the log is external, so only you know where each partition ends"
            raise InvalidRequestError.of("position", f"send it: {reason}")
        return position

    def appended_by(self, writer: str) -> None:
        """Return nothing: it is not known how far a writer appended."""

    def newest_incarnation(self, writer: str) -> int:  # noqa: ARG002 (nobody appends here)
        """Return 0: there are no incarnations but those that registered."""
        return 0

    def abort_transactions(self, writer: str, *, wall_ms: int) -> None:
        """Do nothing: there are no transactions."""

    def forget(self, writer: str) -> None:
        """Do nothing: no appends of a writer are known."""

    def write(self, batch: Batch, stream_key: int, forgotten: list[str]) -> None:
        """Do nothing: no events are stored here."""
