"""Messages about events: media types, headers, and the answers to appends."""

from pydantic import Field

from tidegauge.wire.values import Answer, WirePosition

ARROW = "application/vnd.apache.arrow.stream"
NDJSON = "application/x-ndjson"

WRITER_HEADER = "Tidegauge-Writer"
INCARNATION_HEADER = "Tidegauge-Incarnation"
SEQUENCE_HEADER = "Tidegauge-Sequence"
FIRST_OFFSET_HEADER = "Tidegauge-First-Offset"
STREAM_ID_HEADER = "Tidegauge-Stream-Id"


class Appended(Answer):
    """The answer to an append of Arrow events to one segment."""

    stream_id: str = Field(description="The stream.")
    segment: int = Field(description="Where the events are.")
    next_offset: int = Field(description="One past the last event of this append.")
    sequence: int = Field(description="The newest stored of this writer and segment.")
    duplicate: bool = Field(description="Whether it had been stored before.")
    watermark: int | None = Field(description="Of the newest mark, ms.")
    final: bool = Field(False, description="Whether the stream is sealed.")


class EventsAppended(Answer):
    """The answer to NDJSON events."""

    stream_id: str = Field(description="The stream.")
    position: WirePosition = Field(description="Next offset of each segment written to.")
    watermark: int | None = Field(description="Of the newest mark, ms.")
    final: bool = Field(False, description="Whether the stream is sealed.")
