"""The service: aggregation made durable, the embedded log, and their HTTP API."""

import typing

from tidegauge import extras as _extras

if typing.TYPE_CHECKING:
    from controller.configuration import ServeSettings
    from controller.database import (
        DatabaseInUseError,
        DatabaseUnusableError,
        upgrade_database,
    )
    from controller.serving.server import serve
else:
    _NAMES = {
        "controller": {
            "DatabaseInUseError": "controller.database",
            "DatabaseUnusableError": "controller.database",
            "ServeSettings": "controller.configuration",
            "serve": "controller.serving.server",
            "upgrade_database": "controller.database",
        },
    }
    __getattr__, __dir__ = _extras.on_demand(__name__, _NAMES)

__all__ = [
    "DatabaseInUseError",
    "DatabaseUnusableError",
    "ServeSettings",
    "serve",
    "upgrade_database",
]
