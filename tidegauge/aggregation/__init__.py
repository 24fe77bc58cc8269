"""Aggregation: from the reports of writers to marks."""
