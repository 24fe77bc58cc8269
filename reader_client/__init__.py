"""Readers: the events, marks and time windows of a stream, alone or in groups.

Every error is a `TidegaugeError`. What the service refused is a `ProblemError` with a stable
``code``, such as `ReaderFencedError`; the rest is about the client and reaching the service.

Reading events needs the extra ``reader``; everything else needs ``reporter`` only.
"""

from tidegauge import extras as _extras

__getattr__, __dir__, __all__ = _extras.on_demand(
    __name__, "reporter", unlisted="tidegauge.errors", _events="reader", _reader="reader"
)
