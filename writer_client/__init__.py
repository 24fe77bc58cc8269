"""Writers: events with time noted, to the embedded log or to a log of one's own.

Every error is a `TidegaugeError`. What is wrong with the writer itself is a `WriterError`: fenced,
refused, closed, or stopped with something not stored. What the service refused, for whatever
reason, is a `ProblemError` with a stable ``code``. The rest is about reaching the service.

Noting time needs the extra ``reporter`` only; writing events needs ``writer``.
"""

from tidegauge import extras as _extras

__getattr__, __dir__, __all__ = _extras.on_demand(
    __name__,
    "reporter",
    unlisted="tidegauge.errors",
    _async_writer="writer",
    _transaction="writer",
    _writer="writer",
)
