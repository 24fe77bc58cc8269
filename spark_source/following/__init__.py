"""Ticks beside Spark's own Kafka source."""
