"""The Spark source: a stream as a DataFrame, and Spark's watermark driven exactly."""

from spark_source._errors import (
    CheckpointError,
    DataLossError,
    EventTimeOutOfRangeError,
    GuessedWatermarkError,
    InvalidOptionError,
    LoadError,
    MissingColumnError,
    NoWatermarkError,
    OutputError,
    SparkSourceError,
    StateStoreError,
    TouchedLoadError,
    UnclearDelayError,
    UnfollowedTopicError,
    UnknownColumnsError,
    WrongCheckpointError,
    WrongPythonError,
)
from spark_source._follow import follow
from spark_source._late import in_open_window, split_late
from spark_source._listener import ProgressListener
from spark_source._process import process
from spark_source._report import QueryReport, query_report
from spark_source._source import TidegaugeDataSource
from spark_source._watermark import plain, read_stream, watermarked
from spark_source._windowed import windowed
from spark_source._write import as_events, write_stream
from spark_source.hosting import Outputs

__all__ = [
    "CheckpointError",
    "DataLossError",
    "EventTimeOutOfRangeError",
    "GuessedWatermarkError",
    "InvalidOptionError",
    "LoadError",
    "MissingColumnError",
    "NoWatermarkError",
    "OutputError",
    "Outputs",
    "ProgressListener",
    "QueryReport",
    "SparkSourceError",
    "StateStoreError",
    "TidegaugeDataSource",
    "TouchedLoadError",
    "UnclearDelayError",
    "UnfollowedTopicError",
    "UnknownColumnsError",
    "WrongCheckpointError",
    "WrongPythonError",
    "as_events",
    "follow",
    "in_open_window",
    "plain",
    "process",
    "query_report",
    "read_stream",
    "split_late",
    "watermarked",
    "windowed",
    "write_stream",
]
