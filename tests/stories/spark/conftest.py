"""Fixtures of the tests of Spark."""

from tests.spark.fixtures import *  # noqa: F403 (they are found by their names)
