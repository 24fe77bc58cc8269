"""The Spark source: a stream as a DataFrame, and Spark's watermark driven exactly."""

import typing

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
from tidegauge import extras as _extras

if typing.TYPE_CHECKING:
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
else:
    _NAMES = {
        "spark": {
            "Outputs": "spark_source.hosting",
            "ProgressListener": "spark_source._listener",
            "QueryReport": "spark_source._report",
            "TidegaugeDataSource": "spark_source._source",
            "as_events": "spark_source._write",
            "follow": "spark_source._follow",
            "in_open_window": "spark_source._late",
            "plain": "spark_source._watermark",
            "process": "spark_source._process",
            "query_report": "spark_source._report",
            "read_stream": "spark_source._watermark",
            "split_late": "spark_source._late",
            "watermarked": "spark_source._watermark",
            "windowed": "spark_source._windowed",
            "write_stream": "spark_source._write",
        },
    }
    __getattr__, __dir__ = _extras.on_demand(__name__, _NAMES)

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
