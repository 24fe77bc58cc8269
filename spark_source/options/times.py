"""What Spark's timestamps and its watermark can be."""

import pyarrow as pa

LEAST_TIME = 1
GREATEST_TIME = 253_402_300_799_999
"""What Spark's watermark can be, in ms: 1970-01-01T00:00:00.001Z to 9999-12-31T23:59:59.999Z."""
TIMESTAMP = pa.timestamp("us", "UTC")


def from_ms(times: pa.Array) -> pa.Array:
    """Make timestamps of ms."""
    return times.cast(pa.timestamp("ms", "UTC")).cast(TIMESTAMP)
