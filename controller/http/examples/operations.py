"""Examples of calls of operators."""

from controller.http.examples.example import Example

OPERATING = (
    Example(call="GET /healthz", answer={"status": "ok"}),
    Example(call="GET /readyz", answer={"status": "ok"}),
    Example(call="GET /metrics", answer="# HELP tidegauge_"),
)
