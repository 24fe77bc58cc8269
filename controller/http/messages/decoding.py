"""Reading reports: fast where they are written plainly, thoroughly where they are not.

Nearly all reports are integers where integers belong, and msgspec decodes and checks those in
a fraction of a microsecond. What it refuses goes through the documented models, which also
take decimal strings and RFC 3339, and say what is wrong with the rest. That takes a hundred
times as long, so other calls are answered meanwhile.
"""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct
from pydantic import BaseModel, ValidationError

from controller.http.messages.problems import invalid_request
from tidegauge.errors import InvalidRequestError
from tidegauge.json_text import parse_json
from tidegauge.wire.values import Request
from tidegauge.wire.writers import NoteTime, Report

_Integer: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_Incarnation: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_MOST_REPORTS = 10_000
_AT_A_TIME = 50
"""Reports of 150 segments take some 10 ms then."""
NOT_PLAIN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_M = TypeVar("_M", bound=BaseModel)


class PlainNoteTime(Struct, forbid_unknown_fields=True, gc=False):
    """The fields of `NoteTime`, as integers."""

    time: _Integer
    position: dict[_Integer, _Integer] | None = None
    incarnation: _Incarnation | None = None


class PlainReport(PlainNoteTime, forbid_unknown_fields=True, kw_only=True, gc=False):
    """The fields of `Report`, as integers; its names are checked where they are new."""

    stream: str
    writer: str
    stream_id: str | None = None


class _RawReports(Struct, forbid_unknown_fields=True):
    reports: list[msgspec.Raw]


class _AnyReports(Request):
    reports: list[Any]


class _PlainReports(Struct, forbid_unknown_fields=True):
    reports: Annotated[list[PlainReport], Meta(max_length=_MOST_REPORTS)]


AnyReport: TypeAlias = Report | PlainReport

_decode_one = msgspec.json.Decoder(PlainNoteTime).decode
_split_many = msgspec.json.Decoder(_RawReports).decode
_decode_many = msgspec.json.Decoder(_PlainReports).decode
_decode_signed = msgspec.json.Decoder(PlainReport).decode


def read_json(body: bytes) -> Any:  # noqa: ANN401 (JSON)
    """Read a body that is JSON; raises `InvalidRequestError`."""
    try:
        return parse_json(body)
    except ValueError as error:
        raise InvalidRequestError.of("body", f"cannot be read: {error}") from error


def read_note_time(body: bytes) -> NoteTime | PlainNoteTime:
    """Read the body of a note-time call; raises `InvalidRequestError`."""
    try:
        report = _decode_one(body)
    except NOT_PLAIN:
        return read_request(NoteTime, body)
    return report if body.count(b":") == _keys(report) else read_request(NoteTime, body)


def _keys(report: PlainNoteTime) -> int:
    """Count the keys of a report.

    msgspec takes the last of two keys that are the same. Where all values are integers, each colon
    is behind a key, and so there are more colons than keys if one is there twice; or if one is
    null, which is rare enough to be checked, too.
    """
    position = report.position
    count = 1 if position is None else 2 + len(position)
    return count if report.incarnation is None else count + 1


def _signed_keys(report: PlainReport) -> int:
    count = _keys(report) + 2
    return count if report.stream_id is None else count + 1


async def read_note_times(
    body: bytes, max_bytes: int
) -> Sequence[AnyReport | InvalidRequestError]:
    """Read the body of a note-times call; a report that cannot be read is an error in its place.

    So is one that is larger than so many bytes, and is not written plainly. Raises
    `InvalidRequestError` if the body is no list of reports.
    """
    try:
        many = _decode_many(body).reports
    except NOT_PLAIN:
        many = None
    if many is not None and body.count(b":") == 1 + sum(map(_signed_keys, many)):
        return many
    reports: list[AnyReport | InvalidRequestError] = []
    for at, one in enumerate(split_note_times(body), 1):
        if at % _AT_A_TIME == 0:
            await asyncio.sleep(0)
        try:
            reports.append(_read_one(one, max_bytes))
        except InvalidRequestError as error:
            reports.append(error)
    return reports


def split_note_times(body: bytes) -> list[bytes]:
    """Split the body of a note-times call into its reports, whatever is in them.

    Raises `InvalidRequestError` if it is no list of reports.
    """
    try:
        split = _split_many(body).reports
        if body.count(b'"reports"') != 1:
            read_json(body)
    except NOT_PLAIN as error:
        read_request(_AnyReports, body)
        raise InvalidRequestError.of("body", f"cannot be read: {error}") from error
    if len(split) > _MOST_REPORTS:
        message = f"{len(split)} are too many; send them in parts of at most {_MOST_REPORTS}"
        raise InvalidRequestError.of("reports", message)
    return [bytes(raw) for raw in split]


def _read_one(body: bytes, max_bytes: int) -> AnyReport:
    """Read one of many; thoroughly only what is short, which would keep all others waiting."""
    if len(body) <= max_bytes:
        return read_request(Report, body)
    try:
        report = _decode_signed(body)
    except NOT_PLAIN:
        report = None
    if report is None or body.count(b":") != _signed_keys(report):
        message = f"is larger than {max_bytes} bytes (max_report_bytes), and not plain integers"
        raise InvalidRequestError.of("report", message)
    return report


def read_request(model: type[_M], body: bytes) -> _M:
    """Read a body that is a message; raises `InvalidRequestError`."""
    try:
        return model.model_validate(read_json(body))
    except ValidationError as error:
        raise invalid_request(error) from error
