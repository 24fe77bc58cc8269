"""How much the service takes; more is refused, and the refusal names the setting."""

from collections.abc import Sized
from dataclasses import dataclass

from controller.configuration import ServeSettings
from tidegauge import errors


@dataclass(frozen=True, slots=True)
class Limits:
    """What is checked where something new begins, or comes in."""

    _settings: ServeSettings

    @property
    def position_segments(self) -> int:
        """How many segments one position may name.

        The end of a stream and the position of a group are sent whole or not at all: there the
        stream is the bound.
        """
        return self._settings.max_position_segments

    def check_names(self, *names: str) -> None:
        """Refuse new names that are too long."""
        for name in names:
            if len(name) > self._settings.max_name_length:
                raise errors.NameTooLongError(name, self._settings.max_name_length)

    def check_position(self, position: Sized) -> None:
        """Refuse a position that names too many segments."""
        if len(position) > self.position_segments:
            raise errors.TooManySegmentsError(len(position), self.position_segments)

    def check_new_writer(self, stream: str, writer: str, writers: Sized) -> None:
        """Refuse a new writer of a stream that has as many as it may."""
        self.check_names(writer)
        if len(writers) >= self._settings.max_writers_per_stream:
            raise errors.TooManyWritersError(stream, self._settings.max_writers_per_stream)

    def check_new_transaction(self, stream: str, transactions: Sized) -> None:
        """Refuse a new transaction of a stream that has as many open ones as it may."""
        if len(transactions) >= self._settings.max_transactions_per_stream:
            raise errors.TooManyTransactionsError(
                stream, self._settings.max_transactions_per_stream
            )

    def check_transaction_size(self, transaction: str, size: int) -> None:
        """Refuse what would make a transaction too large, in bytes."""
        if size > self._settings.max_transaction_bytes:
            raise errors.TransactionTooLargeError(
                transaction, size, self._settings.max_transaction_bytes
            )

    def check_new_stream(self, scope: str, stream: str, streams: Sized) -> None:
        """Refuse a new stream, if there are as many as there may be."""
        self.check_names(scope, stream)
        if len(streams) >= self._settings.max_streams:
            raise errors.TooManyStreamsError(self._settings.max_streams)

    def check_new_group(self, scope: str, group: str, groups: Sized) -> None:
        """Refuse a new reader group, if there are as many as there may be."""
        self.check_names(scope, group)
        if len(groups) >= self._settings.max_groups:
            raise errors.TooManyGroupsError(self._settings.max_groups)
