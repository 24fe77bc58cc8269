"""The dashboard: a page that people keep open, over the public API of the service."""

from tidegauge_dashboard.server import (
    DashboardSettings,
    ExposedDashboardError,
    PortTakenError,
    create_app,
    listen,
    run,
)

__all__ = [
    "DashboardSettings",
    "ExposedDashboardError",
    "PortTakenError",
    "create_app",
    "listen",
    "run",
]
