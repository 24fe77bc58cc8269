"""Where Spark is installed, as its Python processes see it: without PySpark's archives."""

import logging
import os
import sys
from contextlib import suppress
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)
_PARTS = "bin", "conf", "jars", "sbin"
_CHOSEN = "SPARK_HOME", "HADOOP_CONF_DIR", "YARN_CONF_DIR"
"""Variables of somebody who has another Spark, or who may run on YARN, which ships the archives."""


def quick_start() -> None:
    """Let Spark use this interpreter, and start its Python processes in about half the time.

    Call it before the session starts. PySpark from PyPI contains itself a second time, as
    archives. Spark's Python processes import from these and compile all of it each time, since
    Python keeps no bytecode of an archive. So this makes a folder of links to the installed
    PySpark without its archives, in the user's cache (``XDG_CACHE_HOME``), and sets
    ``SPARK_HOME`` to it. ``PYSPARK_PYTHON`` is set to this interpreter.

    What is set already stays: nothing is done for a program that ``spark-submit`` started.
    ``SPARK_HOME`` is left alone if it is set, if ``PYSPARK_PYTHON`` names another interpreter, if
    ``HADOOP_CONF_DIR`` or ``YARN_CONF_DIR`` is set, since YARN needs the archives, or if PySpark
    has no archives or a distribution of its own. What this function set in a parent process of
    another environment is not the user's, and is set anew.
    """
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    installed = Path(pyspark.__path__[0]).resolve()
    if _was_set_for_another(installed):
        for name in ("SPARK_HOME", "PYSPARK_PYTHON"):
            os.environ.pop(name, None)
    python = os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if python != sys.executable or any(name in os.environ for name in _CHOSEN):
        return
    if SparkSession.getActiveSession() is not None:
        _log.warning("a session exists: call quick_start() before the first one starts")
    is_usual = (installed / "python/lib/pyspark.zip").exists()
    if not is_usual or (installed / "spark-distribution").exists():
        return
    try:
        os.environ["SPARK_HOME"] = str(linked_home(installed))
    except (OSError, RuntimeError) as error:  # nobody needs it to run
        _log.warning(
            "Spark's Python processes start slowly: no folder of links can be made (%s); set "
            "XDG_CACHE_HOME to a folder that this user can write to",
            error,
        )


def linked_home(installed: Path) -> Path:
    """Make or find links to all of an installed PySpark that Spark needs, but for the archives.

    The folder depends on the place alone, so that whoever finds a link finds the right one.
    """
    home = _homes().joinpath(*installed.parts[1:])
    home.mkdir(parents=True, exist_ok=True)
    for part in _PARTS:
        with suppress(FileExistsError):
            (home / part).symlink_to(installed / part)
    return home


def _homes() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache.absolute() / "tidegauge" / "spark-home"


def _was_set_for_another(installed: Path) -> bool:
    """Return whether a parent process, of another environment, has set both variables here."""
    home, homes = Path(os.environ.get("SPARK_HOME", "")), _homes()
    return home.is_relative_to(homes) and home != homes.joinpath(*installed.parts[1:])
