"""The service: aggregation made durable, the embedded log, and their HTTP API."""

from tidegauge import extras as _extras

__getattr__, __dir__, __all__ = _extras.on_demand(__name__, "controller")
