"""Options of `tidegauge serve`; each is also an environment variable."""

from pathlib import Path
from typing import Annotated, Any

import typer

_SERVING, _ACCESS, _LIMITS = "Serving", "Access", "Limits"
_TELLING = "Logs, metrics and health"
_SEVERAL = "Several controllers over one PostgreSQL database"


def _option(panel: str, name: str, description: str) -> Any:  # noqa: ANN401 (typer's)
    return typer.Option(
        "--" + name.replace("_", "-"),
        envvar=f"TIDEGAUGE_{name.upper()}",
        help=description,
        rich_help_panel=panel,
    )


Host = Annotated[str, _option(_SERVING, "host", "Address to listen on.")]
Port = Annotated[int, _option(_SERVING, "port", "Port to listen on; 0 for a free one.")]
DatabaseUrl = Annotated[
    str,
    _option(
        _SERVING,
        "database_url",
        "Where the state lives; a PostgreSQL password is best in PGPASSWORD.",
    ),
]
MaxDatabaseBytes = Annotated[
    int,
    _option(
        _SERVING,
        "max_database_bytes",
        "Refuse writes beyond this size of an SQLite database; 0: no limit.",
    ),
]
MarkThinning = Annotated[
    str,
    _option(
        _SERVING,
        "mark_thinning",
        "age_ms:step_ms,…: how few old marks are kept; empty: all of them.",
    ),
]
ShutdownDelayMs = Annotated[
    int,
    _option(
        _SERVING, "shutdown_delay_ms", "Serve so long after SIGTERM, while /readyz says 503."
    ),
]
AdvertiseUrl = Annotated[
    str | None,
    _option(
        _SEVERAL, "advertise_url", "Where the others reach this one; else where it listens."
    ),
]
PeerCa = Annotated[
    Path | None,
    _option(
        _SEVERAL, "peer_ca", "Trust the others by who signed their certificates, in this file."
    ),
]
LeaseMs = Annotated[
    int, _option(_SEVERAL, "lease_ms", "After such a silence, others take its streams over.")
]
Tokens = Annotated[
    Path | None,
    _option(_ACCESS, "tokens", "File of the tokens that are let in; see `token new`."),
]
TlsCertificate = Annotated[
    Path | None, _option(_ACCESS, "tls_certificate", "Speak TLS with this certificate (PEM).")
]
TlsKey = Annotated[
    Path | None, _option(_ACCESS, "tls_key", "Its key (PEM), unless it is in the same file.")
]
Insecure = Annotated[
    bool, _option(_ACCESS, "insecure", "Listen beyond this machine although nobody is asked.")
]
MaxBodyBytes = Annotated[int, _option(_LIMITS, "max_body_bytes", "Refuse larger requests.")]
MaxNameLength = Annotated[
    int, _option(_LIMITS, "max_name_length", "Refuse longer names of what is new; at most 255.")
]
MaxHeadBytes = Annotated[
    int, _option(_LIMITS, "max_head_bytes", "Refuse longer addresses and headers.")
]
MaxReportBytes = Annotated[
    int, _option(_LIMITS, "max_report_bytes", "Refuse larger single reports.")
]
MaxUnfinishedHeadBytes = Annotated[
    int,
    _option(
        _LIMITS,
        "max_unfinished_head_bytes",
        "Memory for all addresses and headers that are not whole yet; the oldest give way.",
    ),
]
HeadTimeoutMs = Annotated[
    int,
    _option(
        _LIMITS, "head_timeout_ms", "Wait so long for a first byte, and for the rest of a head."
    ),
]
MaxPositionSegments = Annotated[
    int, _option(_LIMITS, "max_position_segments", "Refuse positions that name more segments.")
]
MaxWritersPerStream = Annotated[
    int, _option(_LIMITS, "max_writers_per_stream", "Refuse more writers of one stream.")
]
MaxStreams = Annotated[int, _option(_LIMITS, "max_streams", "Refuse more streams.")]
MaxGroups = Annotated[int, _option(_LIMITS, "max_groups", "Refuse more reader groups.")]
MaxLongPolls = Annotated[
    int, _option(_LIMITS, "max_long_polls", "Let so many calls wait for news.")
]
LogLevel = Annotated[str, _option(_TELLING, "log_level", "debug, info, warning or error.")]
LogFormat = Annotated[str, _option(_TELLING, "log_format", "text, or json: one object a line.")]
Traces = Annotated[
    bool, _option(_TELLING, "traces", "Send traces as OTEL_… says; needs the extra otel.")
]
MaxStallMs = Annotated[
    int, _option(_TELLING, "max_stall_ms", "/healthz says 503 when nothing moves for so long.")
]
MetricsStreams = Annotated[
    int, _option(_TELLING, "metrics_streams", "Show so many streams one by one in /metrics.")
]
