"""Measurements, each as a ratio against a baseline of the same run."""
