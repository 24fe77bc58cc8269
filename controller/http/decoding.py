"""Reading reports: fast where they are written plainly, thoroughly where they are not.

Nearly all reports are integers where integers belong, and msgspec decodes and checks those in
a fraction of a microsecond. What it refuses goes through the documented models, which also
take decimal strings and RFC 3339, and say what is wrong with the rest.
"""

from collections.abc import Sequence
from typing import Annotated, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct
from pydantic import BaseModel, ValidationError

from controller.http.problems import invalid_request
from tidegauge.names import NAME_PATTERN
from tidegauge.wire.writers import NoteTime, NoteTimes, Report

_Integer: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_Name: TypeAlias = Annotated[str, Meta(pattern=NAME_PATTERN)]
_MOST_REPORTS = 10_000
_NOT_PLAIN = (msgspec.DecodeError, UnicodeDecodeError)
_M = TypeVar("_M", bound=BaseModel)


class PlainNoteTime(Struct, forbid_unknown_fields=True):
    """The fields of `NoteTime`, as integers."""

    time: _Integer
    position: dict[_Integer, _Integer] | None = None
    incarnation: _Integer | None = None


class PlainReport(PlainNoteTime, forbid_unknown_fields=True, kw_only=True):
    """The fields of `Report`, as integers."""

    stream: str
    writer: _Name
    stream_id: str | None = None


class _PlainReports(Struct, forbid_unknown_fields=True):
    reports: Annotated[list[PlainReport], Meta(max_length=_MOST_REPORTS)]


_decode_one = msgspec.json.Decoder(PlainNoteTime).decode
_decode_many = msgspec.json.Decoder(_PlainReports).decode


def read_note_time(body: bytes) -> NoteTime | PlainNoteTime:
    """Read the body of a note-time call; raises `InvalidRequestError`."""
    try:
        return _decode_one(body)
    except _NOT_PLAIN:
        return _thoroughly(NoteTime, body)


def read_note_times(body: bytes) -> Sequence[Report | PlainReport]:
    """Read the body of a note-times call; raises `InvalidRequestError`."""
    try:
        return _decode_many(body).reports
    except _NOT_PLAIN:
        return _thoroughly(NoteTimes, body).reports


def _thoroughly(model: type[_M], body: bytes) -> _M:
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise invalid_request(error) from error
