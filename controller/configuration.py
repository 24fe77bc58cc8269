"""Settings of one controller: `tidegauge serve` makes its options of them, part by part.

This module loads pydantic only: the command line reads it where the service is not installed.
"""

from pathlib import Path
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from tidegauge.client.addresses import check_url
from tidegauge.retention import parse_thinning

LogFormat: TypeAlias = Literal["text", "json"]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
LEAST_DATABASE_BYTES = 131_072
"""An empty SQLite database fits in."""


def _check_thinning(text: str) -> str:
    parse_thinning(text)
    return text


def _check_database_bytes(size: int) -> int:
    if 0 < size < LEAST_DATABASE_BYTES:
        msg = f"{LEAST_DATABASE_BYTES} is the least; 0 is no limit"
        raise ValueError(msg)
    return size


class _Serving(BaseModel):
    model_config = ConfigDict(title="Serving")

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8470, ge=0, le=65_535, description="Port to listen on; 0 for a free one.")
    database_url: str = Field(
        "sqlite:///tidegauge.db",
        repr=False,
        description="Where the state lives: sqlite:///PATH or postgresql://USER@HOST/NAME; its "
        "password is best in PGPASSWORD.",
    )
    max_database_bytes: Annotated[int, AfterValidator(_check_database_bytes)] = Field(
        0,
        ge=0,
        description="Refuse writes beyond this size of an SQLite database; 0: no limit.",
    )
    mark_thinning: Annotated[str, AfterValidator(_check_thinning)] = Field(
        "3600000:1000,86400000:60000",
        description="AGE:STEP,…, as 1h:1s,1d:1m: of marks older than an age, in wall clock, keep "
        "one in each step of event time; empty: keep all.",
    )
    shutdown_delay_ms: int = Field(
        0, ge=0, description="Go on serving so long after SIGTERM, while /readyz says 503."
    )


class _Dashboard(BaseModel):
    model_config = ConfigDict(title="Dashboard")

    ui_url: Annotated[str, AfterValidator(check_url)] | None = Field(
        None, description="Where a dashboard of this service is: the page at / links to it."
    )


class _Cluster(BaseModel):
    model_config = ConfigDict(title="Several controllers over one PostgreSQL database")

    advertise_url: Annotated[str, AfterValidator(check_url)] | None = Field(
        None,
        description="Where the other controllers reach this one; left out: where it listens, or "
        "its host name if that is everywhere.",
    )
    peer_ca: Path | None = Field(
        None,
        description="Trust the certificates of other controllers that are signed by one in this "
        "file (PEM); left out: those that Python's certifi trusts.",
    )
    lease_ms: int = Field(
        3_000,
        ge=500,
        description="After such a silence of a controller, others take over its streams.",
    )


class _Access(BaseModel):
    model_config = ConfigDict(title="Access")

    tokens: Path | None = Field(
        None,
        description="File of the tokens that are let in, which `tidegauge token new` fills; left "
        "out: nobody is asked.",
    )
    tls_certificate: Path | None = Field(
        None, description="Speak TLS with this certificate (PEM, with its chain)."
    )
    tls_key: Path | None = Field(
        None, description="The certificate's key (PEM), unless it is in the same file."
    )
    insecure: bool = Field(
        False, description="Listen beyond this machine although nobody is asked for a token."
    )

    @model_validator(mode="after")
    def _check_tls(self) -> Self:
        if self.tls_key is not None and self.tls_certificate is None:
            msg = "tls_key without tls_certificate; give both"
            raise ValueError(msg)
        return self


class _Limits(BaseModel):
    model_config = ConfigDict(title="Limits")

    max_body_bytes: int = Field(
        16 * 2**20, ge=1_024, description="Refuse request bodies beyond this size."
    )
    max_report_bytes: int = Field(
        2**16, ge=1_024, description="Refuse single reports beyond this size."
    )
    max_head_bytes: int = Field(
        2**20, ge=1_024, description="Refuse longer addresses and headers."
    )
    max_unfinished_head_bytes: int = Field(
        2**26,
        ge=1_024,
        description="Let the addresses and headers that are not whole yet take so much memory in "
        "all; the oldest are refused.",
    )
    head_timeout_ms: int = Field(
        10_000,
        ge=100,
        description="Wait so long for the first byte of a connection, and for the rest of an "
        "address and headers.",
    )
    max_name_length: int = Field(
        255, ge=1, le=255, description="Refuse longer names of what is new; at most 255."
    )
    max_position_segments: int = Field(
        10_000, ge=1, description="Refuse positions that name more segments."
    )
    max_writers_per_stream: int = Field(
        1_000_000, ge=1, description="Refuse more writers of one stream."
    )
    max_transactions_per_stream: int = Field(
        1_000, ge=1, description="Refuse more open transactions of one stream."
    )
    max_transaction_bytes: int = Field(
        256 * 2**20, ge=1_024, description="Refuse more bytes of events in one transaction."
    )
    max_streams: int = Field(100_000, ge=1, description="Refuse more streams.")
    max_groups: int = Field(10_000, ge=1, description="Refuse more reader groups.")
    max_long_polls: int = Field(
        10_000, ge=0, description="Let so many calls wait for news at once."
    )


class _Observing(BaseModel):
    model_config = ConfigDict(title="Logs, metrics and health")

    log_level: LogLevel = Field("info", description="How much to log.")
    log_format: LogFormat = Field(
        "text", description="How to log: text for people, or json, one object a line."
    )
    metrics_streams: int = Field(
        1_000, ge=0, description="Let so many streams have series of their own in /metrics."
    )
    traces: bool = Field(
        False,
        description="Send traces as the environment variables OTEL_… say; needs the extra otel.",
    )
    max_stall_ms: int = Field(
        15_000, ge=100, description="/healthz says 503 when nothing moves for so long."
    )


PARTS: tuple[type[BaseModel], ...] = (
    _Serving,
    _Dashboard,
    _Cluster,
    _Access,
    _Limits,
    _Observing,
)
"""The settings in the order of the help, each part with its title."""


class ServeSettings(_Serving, _Dashboard, _Cluster, _Access, _Limits, _Observing):
    """Settings of one controller; ``tidegauge serve`` reads each from ``TIDEGAUGE_…``, too."""

    model_config = ConfigDict(
        title="ServeSettings",
        extra="forbid",
        hide_input_in_errors=True,  # a URL may hold a password
    )
