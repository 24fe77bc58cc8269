"""What Spark forks its Python workers from, with all imported that each of them would import itself."""

import gc
from importlib import import_module

from pyspark.daemon import manager

_MODULES = (
    "pandas",
    "pyspark.sql.streaming.stateful_processor_util",
    "pyspark.worker",
    "reader_client._stream",
    "spark_source.operators.processors",
    "spark_source.operators.windows",
    "spark_source.source.rows",
)

if __name__ == "__main__":
    for name in _MODULES:
        import_module(name)
    gc.freeze()
    manager()
