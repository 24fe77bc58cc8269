"""The reader group of a query: the checkpoint leads, the group is told."""

from reader_client import ExclusiveReader, ReaderGroup
from spark_source._errors import InvalidOptionError
from spark_source._options import Options
from tidegauge.errors import UnknownGroupError
from tidegauge.topology import Position

_READER = "spark"


class QueryGroup:
    """What a query tells its reader group.

    Parameters
    ----------
    options
        Of the load; name a group.
    group
        ``scope/group``.
    start
        Where the query stands; a group that stood elsewhere is set to it, back too.
    """

    def __init__(self, options: Options, group: str, start: Position) -> None:
        self._stream = options.stream
        _find_position(options, group, start)
        self._reader = ExclusiveReader(options.url, group, _READER, token=options.token)
        self._reader.take_over({self._stream: start})
        self._confirmed = start

    def confirm(self, end: Position) -> None:
        """Advance the group to the end of a batch.

        Raises
        ------
        ReaderFencedError
            If another query took the group over.
        """
        if end != self._confirmed:
            self._reader.confirm({self._stream: end})
            self._confirmed = end

    def close(self) -> None:
        """Go offline, unless another query took the group over."""
        self._reader.close()


def starting_position(options: Options, start: Position) -> Position:
    """Find where a query without a checkpoint starts: where its group stands, if it has one."""
    if options.reader_group is None:
        return start
    return _find_position(options, options.reader_group, start)


def _find_position(options: Options, name: str, start: Position) -> Position:
    """Find where a group stands; a new one is created at the start."""
    with ReaderGroup(options.url, name, token=options.token) as group:
        try:
            info = group.describe()
        except UnknownGroupError:
            info = group.create([options.stream], start_cut={options.stream: start})
    if info.streams != [options.stream]:
        problem = f"{name} reads {', '.join(info.streams)}, not {options.stream} alone"
        raise InvalidOptionError("readerGroup", problem)
    return info.state.to_state().position(options.stream)
