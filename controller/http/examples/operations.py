"""Examples of calls of operators."""

from importlib.metadata import version

from controller.http.examples.example import Example

OPERATING = (
    Example(
        call="GET /",
        headers={"Accept": "application/json"},
        answer={
            "version": version("tidegauge"),
            "streams": [],
            "more": False,
            "links": {
                "documentation": "/docs",
                "metrics": "/metrics",
                "openapi": "/openapi.json",
                "streams": "/v1/streams",
            },
        },
    ),
    Example(call="GET /healthz", answer={"status": "ok"}),
    Example(call="GET /readyz", answer={"status": "ok"}),
    Example(call="GET /metrics", answer="# HELP tidegauge_"),
)
