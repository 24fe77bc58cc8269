"""One Spark session with the jars of one format, for ``make test-lake``; without them no tests."""

import os
import sys
from collections.abc import Iterator
from itertools import count

import pytest
from pyspark.sql import SparkSession

from tests.lake.lakes import JARS, Lake, format_of_jars
from tests.quick_spark import quick_environment
from tests.spark.fixtures import checkpoint, feed  # noqa: F401 (they are found by their names)

os.environ["PYSPARK_PYTHON"] = sys.executable
collect_ignore_glob = [] if JARS else ["test_*.py"]
_NUMBERS = count(1)


@pytest.fixture(scope="session")
def whole_lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return Lake(format_of_jars(), tmp_path_factory.mktemp("lake"))


@pytest.fixture(scope="session")
def lake_spark(whole_lake: Lake) -> Iterator[SparkSession]:
    """Knows the tables of all tests of this format."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in quick_environment().items():
            patch.setenv(name, value)
        session = whole_lake.session()
    yield session
    session.stop()


@pytest.fixture
def lake(whole_lake: Lake) -> Lake:
    """Tables with names of this test's own."""
    return Lake(whole_lake.format, whole_lake.folder, f"test{next(_NUMBERS)}")


@pytest.fixture
def delta(lake: Lake) -> Lake:
    """The same, where the format is Delta."""
    if lake.format != "delta":
        pytest.skip("this is about delta")
    return lake
