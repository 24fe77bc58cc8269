"""Where reads start and end."""

from collections.abc import Container
from datetime import timedelta

import reader_client
from spark_source.errors import DataLossError, InvalidOptionError, LogReplacedError
from spark_source.options.load import Options
from spark_source.options.sink import Place
from spark_source.source.group import check_group, starting_position
from spark_source.source.planner import Offset
from tidegauge.client.outage import TAKE_OVER
from tidegauge.errors import NotCompleteYetError
from tidegauge.event_time import check_unit
from tidegauge.lattice import cut_of, down_set
from tidegauge.log import Extent, Log
from tidegauge.topology import Position

FIRST_CONTACT = timedelta(seconds=5)
"""A wrong address is reported soon: at the first contact it is likelier than an outage."""


def first_client(of: Place) -> "reader_client.StreamClient":
    """Connect to a stream that may not be there."""
    return reader_client.StreamClient(
        of.url,
        of.stream,
        token=of.token,
        retry_for=TAKE_OVER,
        first_contact=FIRST_CONTACT,
    )


def check_stream(client: "reader_client.StreamClient", options: Options) -> None:
    """Refuse a stream whose events, or whose times, are not where the load looks for them."""
    config, is_kafka = client.describe().config, options.kafka is not None
    log = config.log
    if log == "external" and not is_kafka:
        problem = (
            f"the events of stream {options.stream} live in an external log; where that is"
        )
        cure = (
            "Kafka, set log=kafka and kafka.bootstrap.servers, or let a query over Spark's own "
            "Kafka source follow() the stream"
        )
        raise InvalidOptionError("log", f"{problem} {cure}")
    if log == "embedded" and is_kafka:
        problem = f"stream {options.stream} keeps its events itself; leave out log=kafka"
        raise InvalidOptionError("log", problem)
    if config.max_future_skew_ms is not None:
        _check_unit("startingTime", options.starting_time)
        _check_unit("endingTime", options.ending_time)


def _check_unit(name: str, time: int | None) -> None:
    try:
        check_unit(time or 0)
    except ValueError as error:
        raise InvalidOptionError(name, str(error)) from None


def check_load(log: Log, options: Options) -> None:
    """Refuse options that do not fit the log, which has to be there and to be readable.

    A cut may name segments that it does not have, or the group may read another stream.
    """
    segments = log.extent().topology.segments
    cuts = {"startingCut": options.starting_cut, "endingCut": options.ending_cut}
    for name, cut in cuts.items():
        for segment in cut or ():
            if segment not in segments:
                cure = f"the stream has those from 0 to {max(segments)}"
                raise InvalidOptionError(name, f"there is no segment {segment}; {cure}")
    check_group(options)


def starting_offset(log: Log, client: "reader_client.StreamClient", options: Options) -> Offset:
    """Find where a read without a checkpoint starts, and the bound that holds there.

    A query whose batches end where event time says starts at the beginning of its stream without
    a bound, also when there are marks before the first event: so it did before they were made.
    """
    position = log.starts()
    if options.latest:
        position = log.extent().ends
    elif options.starting_cut is not None:
        position = options.starting_cut
    elif options.starting_time is not None and not options.time_is_expression:
        position = log.start_of(options.starting_time)
    info = client.describe()
    known = info.topology.to_topology()
    grouped = starting_position(options, _within(position, known))
    position = {n: at for n, at in position.items() if n not in known} | dict(grouped)
    # Last, since a segment that the stream was scaled to meanwhile may be in the position.
    extent = log.extent()
    cut = cut_of(extent.topology, position)
    is_paced = options.admission == "marks" and options.max_event_time_ms is not None
    passed = None
    if any(cut.values()) or not is_paced:
        passed = client.marks_at_position(_within(cut, client.topology())).passed
    return Offset(
        stream_id=info.stream_id,
        position=cut,
        bound=None if passed is None else passed.lower,
        revision=0 if passed is None else passed.revision,
        run=0,
        log_id=extent.log_id,
    )


def _within(position: Position, segments: Container[int]) -> Position:
    """Leave out what a log has and its stream does not yet: no mark and no group names it."""
    return {number: offset for number, offset in position.items() if number in segments}


def ending_position(
    log: Log, client: "reader_client.StreamClient", options: Options
) -> Position | None:
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
        return log.extent().ends
    sentence = client.explain().explanation.in_full
    raise NotCompleteYetError(options.stream, options.ending_time, sentence)


def check_nothing_lost(start: Offset, starts: Position, extent: Extent) -> None:
    """Raise `DataLossError` if the log ends before where the query is, or begins after it.

    `LogReplacedError` if it is another one, which begins anew.
    """
    if extent.log_id != start.log_id:
        raise LogReplacedError(extent.log_id, start.log_id)
    for segment, wanted in start.position.items():
        end = extent.ends.get(segment, 0)
        if end < wanted:
            raise DataLossError(segment, wanted, end)
    read = down_set(extent.topology, start.position)
    for segment, first in down_set(extent.topology, starts).items():
        wanted = read.get(segment, 0)
        if wanted < first:
            raise DataLossError(segment, wanted, first)
