"""The log: one form for the service, uvicorn and everything else, as text or as JSON lines.

Modules log through `logging` and name what they speak of in ``extra``, as ``stream``, ``writer``
and so on; both forms show these as fields.
"""

import logging
import sys

from structlog.dev import ConsoleRenderer, plain_traceback
from structlog.processors import EventRenamer, JSONRenderer, TimeStamper, format_exc_info
from structlog.stdlib import ExtraAdder, ProcessorFormatter, add_log_level, add_logger_name
from structlog.types import EventDict, Processor, WrappedLogger

from controller.configuration import LogFormat, LogLevel

_ESCAPED = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
_ESCAPED |= {code: f"\\u{code:04x}" for code in (0x2028, 0x2029)}


def configure_logging(level: LogLevel, form: LogFormat) -> None:
    """Log to standard error from now on, warnings of Python too.

    Tracebacks never show local variables, which may hold tokens.
    """
    rendering: list[Processor]
    if form == "json":
        rendering = [format_exc_info, EventRenamer("message"), JSONRenderer(default=str)]
    else:
        console = ConsoleRenderer(
            colors=sys.stderr.isatty(), pad_event_to=0, exception_formatter=plain_traceback
        )
        rendering = [_on_one_line, console]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        ProcessorFormatter(
            foreign_pre_chain=[
                ExtraAdder(),
                add_log_level,
                add_logger_name,
                TimeStamper(fmt="iso", utc=True),
            ],
            processors=[ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(capture=True)
    # It warns of objects that it drops with a lost connection, which the service logs in words.
    logging.getLogger("psycopg").setLevel(logging.ERROR)


def _on_one_line(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Keep what callers sent from beginning lines of its own, and from colouring any."""
    return {
        name: value.translate(_ESCAPED) if isinstance(value, str) else value
        for name, value in event.items()
    }
