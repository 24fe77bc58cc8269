"""Fixtures of the tests of Spark."""

from tests.spark.fixtures import checkpoint, feed, kafka_spark, spark, target, topic

__all__ = ["checkpoint", "feed", "kafka_spark", "spark", "target", "topic"]
