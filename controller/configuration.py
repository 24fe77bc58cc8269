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
        description="Database: sqlite:///PATH or postgresql://USER@HOST/NAME; set the password in "
        "PGPASSWORD.",
    )
    max_database_bytes: Annotated[int, AfterValidator(_check_database_bytes)] = Field(
        0,
        ge=0,
        description="Refuse writes once an SQLite database has this size; 0: no limit.",
    )
    mark_thinning: Annotated[str, AfterValidator(_check_thinning)] = Field(
        "3600000:1000,86400000:60000",
        description="AGE:STEP,…, such as 1h:1s,1d:1m: keep one mark in each STEP of event time once marks "
        "are older than AGE; empty: keep all marks.",
    )
    hold_retention_ms: int = Field(
        7_776_000_000,
        ge=0,
        le=315_360_000_000,
        description="How long the record of who held a watermark is kept: at most 10 years, and 10000 spans of a stream; 0: no limit.",
    )
    shutdown_delay_ms: int = Field(
        0,
        ge=0,
        description="Keep serving for this long after SIGTERM, while /readyz answers 503.",
    )


class _FailOver(BaseModel):
    model_config = ConfigDict(title="Fail-over of controllers that share a PostgreSQL database")

    advertise_url: Annotated[str, AfterValidator(check_url)] | None = Field(
        None,
        description="URL at which clients reach this controller; controllers that stand by send "
        "callers there. If it is left out, they answer 503.",
    )
    lease_ms: int = Field(
        3_000,
        ge=500,
        le=60_000,
        description="Another controller takes over once this one has been silent for 1.1 leases. "
        "Give all controllers of a database the same lease.",
    )


class _Access(BaseModel):
    model_config = ConfigDict(title="Access")

    tokens: Path | None = Field(
        None,
        description="Token file, which `tidegauge token new` writes; left out: no authentication.",
    )
    tls_certificate: Path | None = Field(
        None, description="Serve TLS with this certificate (PEM, with its chain)."
    )
    tls_key: Path | None = Field(
        None, description="Private key of the certificate (PEM), unless it is in the same file."
    )
    insecure: bool = Field(
        False, description="Listen beyond this machine without authentication."
    )
    browser_hosts: str = Field(
        "",
        description="NAME,…: names by which browsers may call a service with --insecure, besides "
        "localhost and addresses; * for any.",
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
        16 * 2**20, ge=1_024, description="Maximum size of a request body."
    )
    max_report_bytes: int = Field(
        2**16, ge=1_024, description="Maximum size of a single report."
    )
    max_name_length: int = Field(
        255, ge=1, le=255, description="Maximum length of new names; at most 255."
    )
    max_position_segments: int = Field(
        10_000, ge=1, description="Maximum number of segments in a position."
    )
    max_writers_per_stream: int = Field(
        1_000_000, ge=1, description="Maximum number of writers of a stream."
    )
    max_transactions_per_stream: int = Field(
        1_000, ge=1, description="Maximum number of open transactions of a stream."
    )
    max_transaction_bytes: int = Field(
        256 * 2**20, ge=1_024, description="Maximum size of the events of a transaction."
    )
    max_streams: int = Field(100_000, ge=1, description="Maximum number of streams.")
    max_groups: int = Field(10_000, ge=1, description="Maximum number of reader groups.")
    max_long_polls: int = Field(
        10_000, ge=0, description="Maximum number of calls that wait for news at once."
    )


class _Observing(BaseModel):
    model_config = ConfigDict(title="Logs, metrics and health")

    log_level: LogLevel = Field("info", description="Lowest severity to log.")
    log_format: LogFormat = Field(
        "text", description="Log format: text for people, or json with one object on each line."
    )
    metrics_streams: int = Field(
        1_000,
        ge=0,
        description="Maximum number of streams with series of their own in /metrics.",
    )
    max_stall_ms: int = Field(
        15_000, ge=100, description="/healthz answers 503 when nothing moves for this long."
    )


PARTS: tuple[type[BaseModel], ...] = (
    _Serving,
    _FailOver,
    _Access,
    _Limits,
    _Observing,
)
"""The settings in the order of the help, each part with its title."""


class ServeSettings(_Serving, _FailOver, _Access, _Limits, _Observing):
    """Settings of one controller; ``tidegauge serve`` reads each from ``TIDEGAUGE_…``, too."""

    model_config = ConfigDict(
        title="ServeSettings",
        extra="forbid",
        hide_input_in_errors=True,  # a URL may hold a password
    )
