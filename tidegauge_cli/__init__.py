"""The ``tidegauge`` command."""

from tidegauge_cli.extras import needs_extra

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    with needs_extra("cli"):
        from tidegauge_cli.verbs import app  # noqa: PLC0415 (says which extra is missing)
    app()
