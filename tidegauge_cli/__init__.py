"""The ``tidegauge`` command."""

from tidegauge_cli.start import main

__all__ = ["main"]
