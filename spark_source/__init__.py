"""The Spark source: a stream as a DataFrame, and Spark's watermark driven exactly."""

from spark_source._errors import (
    DataLossError,
    EventTimeOutOfRangeError,
    InvalidOptionError,
    LoadError,
    MissingColumnError,
    NoWatermarkError,
    OutputError,
    SparkSourceError,
    StateStoreError,
    TouchedLoadError,
    WrongPythonError,
)
from spark_source._process import process
from spark_source._source import TidegaugeDataSource
from spark_source._watermark import plain, read_stream, watermarked
from spark_source._windowed import windowed
from spark_source.hosting import Outputs

__all__ = [
    "DataLossError",
    "EventTimeOutOfRangeError",
    "InvalidOptionError",
    "LoadError",
    "MissingColumnError",
    "NoWatermarkError",
    "OutputError",
    "Outputs",
    "SparkSourceError",
    "StateStoreError",
    "TidegaugeDataSource",
    "TouchedLoadError",
    "WrongPythonError",
    "plain",
    "process",
    "read_stream",
    "watermarked",
    "windowed",
]
