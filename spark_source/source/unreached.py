"""A mark that a topic is not readable up to, as while a transaction is open before it."""

import logging
from time import monotonic

from tidegauge.event_time import describe_event_time
from tidegauge.marks import Mark
from tidegauge.topology import Position

_STUCK_S = 30.0
_log = logging.getLogger(__name__)


class UnreachedMark:
    """Names the partition that keeps a query from its next mark, and warns of it once a mark."""

    def __init__(self) -> None:
        self._stands: tuple[int, int, int] | None = None
        self._since = 0.0
        self._warned_of = 0

    def explain(self, mark: Mark | None, ends: Position) -> str:
        """Say what is wrong if a partition has stood before a mark for long; else nothing.

        Parameters
        ----------
        mark
            The next one; None if there is none yet.
        ends
            How far each partition can be read.
        """
        cut = {} if mark is None else mark.cut
        beyond = [
            number for number, offset in sorted(cut.items()) if ends.get(number, 0) < offset
        ]
        if mark is None or not beyond:
            self._stands = None
            return ""
        number = beyond[0]
        end = ends.get(number, 0)
        stands = mark.revision, number, end
        if stands != self._stands:
            self._stands, self._since = stands, monotonic()
        if monotonic() - self._since < _STUCK_S:
            return ""
        why = f"that is readable to {end}: a transaction is open, or this is another topic than the producers'"
        if number not in ends:
            why = "the query does not read that: load all of the topic, with subscribe"
        sentence = (
            f"the mark of {describe_event_time(mark.lower)} reaches partition {number} to "
            f"{cut[number]}, and {why}"
        )
        if self._warned_of != mark.revision:
            self._warned_of = mark.revision
            _log.warning("%s", sentence)
        return sentence
