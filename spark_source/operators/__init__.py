"""Operators of event-time processing on Spark: keys in buckets, one blob and one timer each.

A group, an entry of a map or a timer for each key would cost Spark around a millisecond a batch;
so keys are divided over buckets, a bucket's rows travel as one cell, and an operator runs over
one bucket at a time.
"""

from spark_source.operators.bucket import BucketOperator, HostedOperator, HostedStep
from spark_source.operators.outputs import Outputs
from spark_source.operators.packing import KEY, OFFSET, SEGMENT, TIME
from spark_source.operators.pipeline import (
    check_columns,
    has_watermark,
    host,
    with_segment,
)

__all__ = [
    "KEY",
    "OFFSET",
    "SEGMENT",
    "TIME",
    "BucketOperator",
    "HostedOperator",
    "HostedStep",
    "Outputs",
    "check_columns",
    "has_watermark",
    "host",
    "with_segment",
]
