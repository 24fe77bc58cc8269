"""The Spark source: a stream as a DataFrame, and Spark's watermark driven exactly."""

from spark_source._errors import (
    DataLossError,
    EventTimeOutOfRangeError,
    InvalidOptionError,
    LoadError,
    SparkSourceError,
    TouchedLoadError,
    WrongPythonError,
)
from spark_source._late import in_open_window, split_late
from spark_source._listener import ProgressListener
from spark_source._report import QueryReport, query_report
from spark_source._source import TidegaugeDataSource
from spark_source._watermark import plain, read_stream, watermarked

__all__ = [
    "DataLossError",
    "EventTimeOutOfRangeError",
    "InvalidOptionError",
    "LoadError",
    "ProgressListener",
    "QueryReport",
    "SparkSourceError",
    "TidegaugeDataSource",
    "TouchedLoadError",
    "WrongPythonError",
    "in_open_window",
    "plain",
    "query_report",
    "read_stream",
    "split_late",
    "watermarked",
]
