"""Noting time for producers that nobody can change: by reading what they wrote, and guessing.

The verb ``tidegauge observe kafka`` is its face; see the guide to Kafka.
"""
