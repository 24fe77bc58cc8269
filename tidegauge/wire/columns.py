"""The columns of events on the wire; the one message that needs Arrow."""

import pyarrow as pa

EVENT_SCHEMA = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("event_time", pa.int64()),
        pa.field("value", pa.binary(), nullable=False),
    ]
)
"""What is appended: the routing key, the event time in ms (may be null), the payload."""

STORED_SCHEMA = pa.schema(
    [*EVENT_SCHEMA, pa.field("append_time", pa.int64()), pa.field("writer", pa.string())]
)
"""What is read: also the wall clock of the append, ms, and the writer.

Both are null for what was appended before they were stored, the writer also where none was named.
"""
