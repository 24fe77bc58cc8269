"""What Spark's timestamps and its watermark can be."""

import pyarrow as pa

LEAST_TIME = -62_135_596_800_000
GREATEST_TIME = 253_402_300_799_999
"""What Spark's timestamps can be, in ms: the years 1 to 9999."""
LEAST_KEPT = 1
"""The least time that Spark's own operators keep, in ms: their watermark begins at 0."""
TIMESTAMP = pa.timestamp("us", "UTC")


def from_ms(times: pa.Array) -> pa.Array:
    """Make timestamps of ms."""
    return times.cast(pa.timestamp("ms", "UTC")).cast(TIMESTAMP)


def spark_time(bound: int | None) -> int | None:
    """Bring a bound into what a timestamp of Spark can be, in µs."""
    return None if bound is None else min(max(bound, LEAST_TIME), GREATEST_TIME) * 1_000
