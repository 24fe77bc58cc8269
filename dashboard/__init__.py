"""The dashboard: a page that people keep open, over the public API of the service."""

from dashboard.server import DashboardSettings, ExposedDashboardError, create_app, run

__all__ = ["DashboardSettings", "ExposedDashboardError", "create_app", "run"]
