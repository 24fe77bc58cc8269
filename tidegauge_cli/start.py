"""Where the command begins: little is loaded yet, and Ctrl-C ends it all the same."""

from tidegauge_cli.extras import needs_extra


def main() -> None:
    """Run the command line."""
    with needs_extra("cli"):
        from tidegauge_cli.verbs import app  # noqa: PLC0415 (says which extra is missing)
    app()
