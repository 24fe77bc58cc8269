"""Messages about events: media types, headers, and the answers to appends."""

from pydantic import Field

from tidegauge.wire.streams import StreamFacts
from tidegauge.wire.values import WirePosition

ARROW = "application/vnd.apache.arrow.stream"
NDJSON = "application/x-ndjson"

WRITER_HEADER = "Tidegauge-Writer"
INCARNATION_HEADER = "Tidegauge-Incarnation"
SEQUENCE_HEADER = "Tidegauge-Sequence"
FIRST_OFFSET_HEADER = "Tidegauge-First-Offset"
STREAM_ID_HEADER = "Tidegauge-Stream-Id"


class EventsAccepted(StreamFacts):
    """What every answer to an append says."""

    hint: str | None = Field(
        None,
        description="What looks wrong with accepted events: times in seconds, for example.",
    )


class Appended(EventsAccepted):
    """The answer to an append of Arrow events to one segment."""

    segment: int = Field(description="Where the events are.")
    next_offset: int = Field(description="One past the last event of this append.")
    sequence: int = Field(description="The newest stored of this writer and segment.")
    duplicate: bool = Field(description="Whether it had been stored before.")


class EventsAppended(EventsAccepted):
    """The answer to NDJSON events."""

    position: WirePosition = Field(description="Next offset of each segment written to.")
