"""Where reads start and end."""

from reader_client import StreamClient
from spark_source._errors import DataLossError, InvalidOptionError
from spark_source._group import check_group, starting_position
from spark_source._options import Options
from spark_source._planner import Offset
from tidegauge.errors import NotCompleteYetError
from tidegauge.lattice import cut_of, down_set
from tidegauge.topology import Position, Topology
from tidegauge.wire.streams import Tail


def check_load(client: StreamClient, options: Options) -> None:
    """Refuse options that do not fit the stream, which has to be there and to be readable.

    A cut may name segments that it does not have, or the group may read another stream.
    """
    segments = client.tail().tail
    cuts = {"startingCut": options.starting_cut, "endingCut": options.ending_cut}
    for name, cut in cuts.items():
        for segment in cut or ():
            if segment not in segments:
                those = f"the stream has those from 0 to {max(segments)}"
                raise InvalidOptionError(name, f"there is no segment {segment}; {those}")
    check_group(options)


def starting_offset(client: StreamClient, options: Options) -> Offset:
    """Find where a read without a checkpoint starts, and the bound that holds there.

    A query whose batches end where event time says starts at the beginning of its stream without
    a bound, also when there are marks before the first event: so it did before they were made.
    """
    info = client.describe()
    position: Position = info.first_cut or {}
    if options.latest:
        position = info.tail or {}
    elif options.starting_cut is not None:
        position = options.starting_cut
    elif options.starting_time is not None and not options.time_is_expression:
        position = client.marks_at_time(options.starting_time).start or {}
    position = starting_position(options, position)
    # Last, since a segment that the stream was scaled to meanwhile may be in the position.
    cut = cut_of(client.topology(), position)
    is_paced = options.admission == "marks" and options.max_event_time_ms is not None
    passed = None
    if any(cut.values()) or not is_paced:
        passed = client.marks_at_position(cut).passed
    return Offset(
        stream_id=info.stream_id,
        position=cut,
        bound=None if passed is None else passed.lower,
        revision=0 if passed is None else passed.revision,
        run=0,
    )


def ending_position(client: StreamClient, options: Options) -> Position | None:
    """Find where a bounded read ends; None if it is not bounded.

    Refused while no mark says that everything below ``endingTime`` is there.
    """
    if options.ending_cut is not None:
        return options.ending_cut
    if options.ending_time is None:
        return None
    stop = client.marks_at_time(options.ending_time).stop
    if stop is not None:
        return stop.cut
    if options.allow_incomplete:
        return client.tail().tail
    sentence = client.explain().explanation.sentence
    raise NotCompleteYetError(options.stream, options.ending_time, sentence)


def check_nothing_lost(start: Offset, tail: Tail, topology: Topology) -> None:
    """Raise `DataLossError` if the log ends before where the query stands, or begins after it."""
    for segment, wanted in start.position.items():
        found = tail.tail.get(segment, 0)
        if found < wanted:
            raise DataLossError(segment, wanted, found)
    read = down_set(topology, start.position)
    for segment, first in down_set(topology, tail.first_cut).items():
        wanted = read.get(segment, 0)
        if wanted < first:
            raise DataLossError(segment, wanted, first)
