"""The Spark source: a stream as a DataFrame, and Spark's watermark driven exactly."""

import typing
from importlib.util import find_spec as _find_spec
from pathlib import Path as _Path
from runpy import run_path as _run_path

from spark_source import errors as _errors
from tidegauge import extras as _extras

_pyspark = _find_spec("pyspark")
_version = _Path(_pyspark.origin or "none").with_name("version.py") if _pyspark else None
# Before PySpark is imported: an old one fails at this Python, or lacks modules, and says neither.
# In an archive, as on executors, it is asked once it is there.
if _version and _version.is_file():
    _errors.check_spark(_run_path(str(_version))["__version__"])

# Importable from here, too, but at home in spark_source.errors.
_ERRORS = [
    "CheckpointError",
    "DataLossError",
    "EventTimeOutOfRangeError",
    "GuessedWatermarkError",
    "InvalidOptionError",
    "LoadError",
    "MissingColumnError",
    "NoWatermarkError",
    "OutputError",
    "SparkSourceError",
    "ReplacedTableError",
    "StateStoreError",
    "TableTakenError",
    "TouchedLoadError",
    "UnclearDelayError",
    "UnfollowedTableError",
    "UnfollowedTopicError",
    "UnknownColumnsError",
    "WrongCheckpointError",
    "WrongPythonError",
]

if typing.TYPE_CHECKING:
    from spark_source.data_source import TidegaugeDataSource
    from spark_source.frames.append import append_to_table, commit_options
    from spark_source.frames.follow import follow
    from spark_source.frames.late import in_open_window, split_late
    from spark_source.frames.watermark import plain, read_stream, watermarked
    from spark_source.frames.write import as_events, write_stream
    from spark_source.home import quick_start
    from spark_source.operators import Outputs
    from spark_source.operators.process import process
    from spark_source.operators.windowed import windowed
    from spark_source.processing import (
        count,
        max,  # noqa: A004
        mean,
        min,  # noqa: A004
        session,
        sliding,
        sum,  # noqa: A004
        tumbling,
    )
    from spark_source.progress.listener import ProgressListener
    from spark_source.progress.report import QueryReport, query_report
else:
    _WINDOWS = ["count", "max", "mean", "min", "session", "sliding", "sum", "tumbling"]
    _NAMES = {
        None: dict.fromkeys(_ERRORS, "spark_source.errors")
        | dict.fromkeys(_WINDOWS, "spark_source.processing"),
        "spark": {
            "Outputs": "spark_source.operators",
            "ProgressListener": "spark_source.progress.listener",
            "QueryReport": "spark_source.progress.report",
            "TidegaugeDataSource": "spark_source.data_source",
            "append_to_table": "spark_source.frames.append",
            "as_events": "spark_source.frames.write",
            "commit_options": "spark_source.frames.append",
            "follow": "spark_source.frames.follow",
            "in_open_window": "spark_source.frames.late",
            "plain": "spark_source.frames.watermark",
            "process": "spark_source.operators.process",
            "query_report": "spark_source.progress.report",
            "quick_start": "spark_source.home",
            "read_stream": "spark_source.frames.watermark",
            "split_late": "spark_source.frames.late",
            "watermarked": "spark_source.frames.watermark",
            "windowed": "spark_source.operators.windowed",
            "write_stream": "spark_source.frames.write",
        },
    }
    __getattr__, __dir__ = _extras.on_demand(__name__, _NAMES)

__all__ = [
    "Outputs",
    "ProgressListener",
    "QueryReport",
    "TidegaugeDataSource",
    "append_to_table",
    "as_events",
    "commit_options",
    "count",
    "follow",
    "in_open_window",
    "max",
    "mean",
    "min",
    "plain",
    "process",
    "query_report",
    "quick_start",
    "read_stream",
    "session",
    "sliding",
    "split_late",
    "sum",
    "tumbling",
    "watermarked",
    "windowed",
    "write_stream",
]
