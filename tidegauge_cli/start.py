"""Where the command begins: next to nothing is loaded yet, and Ctrl-C ends it all the same."""

import sys
from types import TracebackType


def main() -> None:
    """Run the command line."""
    sys.excepthook = _show_unless_interrupted
    from tidegauge_cli.extras import needs_extra  # noqa: PLC0415 (Ctrl-C is quiet by now)

    with needs_extra("cli"):
        from tidegauge_cli.verbs import app  # noqa: PLC0415 (says which extra is missing)
    app()


def _show_unless_interrupted(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Show what went wrong; that somebody pressed Ctrl-C is nothing that did."""
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
