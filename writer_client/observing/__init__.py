"""Noting time for producers that nobody can change: guesses from what they wrote, or the promises in it.

The verb ``tidegauge observe kafka`` is its face; see the guide to Kafka.
"""
