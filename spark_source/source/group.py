"""The reader group of a query: the checkpoint leads, the group follows."""

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import reader_client
from spark_source.errors import DataLossError, InvalidOptionError
from spark_source.options.load import Options
from tidegauge.errors import InvalidPositionError, UnknownGroupError
from tidegauge.topology import Position

if TYPE_CHECKING:  # messages are not loaded where nobody asks the service
    from tidegauge.wire.groups import GroupInfo

_READER = "spark"


class QueryGroup:
    """The reader group of a query: set to the query's start, back too, and advanced by its batches."""

    def __init__(self, options: Options, group: str, start: Position) -> None:
        self._stream = options.stream
        self._fails = options.fail_on_data_loss
        _find_position(options, group, {})
        self._reader = reader_client.ExclusiveReader(
            options.url, group, _READER, token=options.token
        )
        try:
            self._move(self._reader.take_over, start)
        except BaseException:
            self._reader.close()
            raise
        self._confirmed = start

    def confirm(self, end: Position) -> None:
        """Advance the group to the end of a batch; fenced if another query took it over."""
        if end != self._confirmed:
            self._move(self._reader.confirm, end)
            self._confirmed = end

    def close(self) -> None:
        """Go offline, unless another query took the group over."""
        self._reader.close()

    def _move(self, report: Callable[[dict[str, Position]], None], reached: Position) -> None:
        """Report how far the query has read, or, if that is lost and may be, where the log ends."""
        try:
            report({self._stream: reached})
        except InvalidPositionError as lost:
            tails = lost.stored_position
            if self._fails:
                tail = tails.get(lost.segment, 0)
                raise DataLossError(lost.segment, lost.offset, tail) from lost
            there = {
                number: min(offset, tails.get(number, 0)) for number, offset in reached.items()
            }
            report({self._stream: there})


def starting_position(options: Options, start: Position) -> Position:
    """Find where a query without a checkpoint starts: where its group is, if it has one."""
    if options.reader_group is None:
        return start
    return _find_position(options, options.reader_group, start)


def check_group(options: Options) -> None:
    """Refuse a group that reads another stream; one that is not there yet will be created."""
    name = options.reader_group
    if name is not None:
        with (
            suppress(UnknownGroupError),
            reader_client.ReaderGroup(options.url, name, token=options.token) as group,
        ):
            _check_streams(options, group.describe())


def _find_position(options: Options, name: str, start: Position) -> Position:
    """Find where a group is; a new one is created at the start."""
    info: GroupInfo
    with reader_client.ReaderGroup(options.url, name, token=options.token) as group:
        try:
            info = group.describe()
        except UnknownGroupError:
            info = group.create([options.stream], start_cut={options.stream: start})
    _check_streams(options, info)
    return info.state.to_state().position(options.stream)


def _check_streams(options: Options, info: "GroupInfo") -> None:
    if info.streams != [options.stream]:
        streams = ", ".join(info.streams)
        problem = (
            f"{info.group} reads {streams}, not {options.stream} alone; name another group"
        )
        raise InvalidOptionError("readerGroup", problem)
