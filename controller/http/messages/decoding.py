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
from tidegauge.wire.values import Request
from tidegauge.wire.writers import NoteTime, Report

_Integer: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_Incarnation: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_MOST_REPORTS = 10_000
_AT_A_TIME = 50
"""Reports of 150 segments take some 10 ms then."""
_NOT_PLAIN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
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


def read_note_time(body: bytes) -> NoteTime | PlainNoteTime:
    """Read the body of a note-time call; raises `InvalidRequestError`."""
    try:
        return _decode_one(body)
    except _NOT_PLAIN:
        return _thoroughly(NoteTime, body)


async def read_note_times(body: bytes) -> Sequence[AnyReport | InvalidRequestError]:
    """Read the body of a note-times call; a report that cannot be read is an error in its place.

    Raises
    ------
    InvalidRequestError
        If the body is no list of reports.
    """
    try:
        return _decode_many(body).reports
    except _NOT_PLAIN:
        return await _one_by_one(split_note_times(body))


def split_note_times(body: bytes) -> list[bytes]:
    """Split the body of a note-times call into its reports, whatever is in them.

    Raises
    ------
    InvalidRequestError
        If the body is no list of reports.
    """
    try:
        split = _split_many(body).reports
    except _NOT_PLAIN as error:
        _thoroughly(_AnyReports, body)
        raise InvalidRequestError.of("body", f"cannot be read: {error}") from error
    if len(split) > _MOST_REPORTS:
        message = f"{len(split)} are too many; send them in parts of at most {_MOST_REPORTS}"
        raise InvalidRequestError.of("reports", message)
    return [bytes(raw) for raw in split]


async def _one_by_one(split: list[bytes]) -> Sequence[AnyReport | InvalidRequestError]:
    reports = []
    for at, body in enumerate(split):
        if at % _AT_A_TIME == _AT_A_TIME - 1:
            await asyncio.sleep(0)
        reports.append(_one_of_many(body))
    return reports


def _one_of_many(body: bytes) -> Report | InvalidRequestError:
    try:
        return _thoroughly(Report, body)
    except InvalidRequestError as error:
        return error


def _thoroughly(model: type[_M], body: bytes) -> _M:
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise invalid_request(error) from error
