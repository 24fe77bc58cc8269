"""Where the command begins: next to nothing is loaded yet, and Ctrl-C ends it all the same."""

import errno
import gc
import os
import sys
from collections.abc import Callable
from types import TracebackType

_UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
_RARELY = 100_000
"""So many objects before a collection of garbage: imports leave none, and were slowed by a sixth."""
_EXTRAS = dict.fromkeys(("serve", "db", "token"), "controller")
_EXTRAS |= {"observe": "cli,kafka", "table": "cli,tables"}
"""The extras of verbs that need more than ``cli``."""


def main() -> None:
    """Run the command line."""
    sys.excepthook = _show_unless_interrupted
    gc.set_threshold(_RARELY)
    try:
        _run(_print_version if sys.argv[1:] == ["--version"] else _run_verb)
    except OSError as error:
        if error.errno not in _UNWRITABLE or error.filename is not None:
            raise
        _discard_rest()
        sys.exit(f"tidegauge: cannot write the output: {error.strerror}")


def _print_version() -> None:
    from importlib.metadata import version  # noqa: PLC0415 (verbs do without)

    print(version("tidegauge"))


def _run_verb() -> None:
    from tidegauge_cli.extras import needs_extra  # noqa: PLC0415 (Ctrl-C is quiet by now)

    with needs_extra(_EXTRAS.get("".join(sys.argv[1:2]), "cli")):
        from tidegauge_cli.verbs import app  # noqa: PLC0415 (says which extra is missing)
    app()


def _run(app: Callable[[], None]) -> None:
    """Run to the end, and write what is left of the output while its failure can be reported."""
    try:
        app()
    except SystemExit as ending:
        if not ending.code and sys.stdout is not None:
            try:
                sys.stdout.flush()
            except BrokenPipeError:  # whoever read it has seen enough
                _discard_rest()
                sys.exit(1)
        if isinstance(ending.code, str) and sys.stderr is not None and sys.stderr.isatty():
            from tidegauge_cli.listing import print_line  # noqa: PLC0415 (it ends anyway)

            print_line(ending.code, sys.stderr)
            sys.exit(1)
        raise


def _discard_rest() -> None:
    """Keep the interpreter from failing at what is left, which it writes when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_unless_interrupted(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Show what went wrong; that somebody pressed Ctrl-C is nothing that did."""
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
