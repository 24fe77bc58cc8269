"""The columns of events on the wire; the one message that needs Arrow."""

import pyarrow as pa

EVENT_SCHEMA = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("event_time", pa.int64()),
        pa.field("value", pa.binary(), nullable=False),
    ]
)
"""The routing key, the event time in ms (may be null), the payload."""
