"""The Spark source: a stream as a DataFrame, and Spark's watermark driven exactly."""

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

__getattr__, __dir__, __all__ = _extras.on_demand(
    __name__, "spark", unlisted="spark_source.errors"
)
