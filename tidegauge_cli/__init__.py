"""The ``tidegauge`` command."""

from tidegauge_cli.main import main

__all__ = ["main"]
