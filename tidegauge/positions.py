"""Positions as they are written: in JSON, and as text such as ``0:40,1:12``."""

import re
from collections.abc import Iterable, Mapping

from tidegauge.json_text import show_json

_DECIMAL = re.compile(r"-?[0-9]{1,19}\Z", re.ASCII)


def read_integer(value: object) -> int:
    """Read a 64-bit integer, a JSON integer or a decimal string; raises `ValueError`."""
    if type(value) is int:
        number = value
    elif isinstance(value, str) and _DECIMAL.match(value):
        number = int(value)
    else:
        msg = f"{show_json(value)} is not an integer; send a JSON integer or a decimal string"
        raise ValueError(msg)
    if not -(2**63) <= number < 2**63:
        msg = f"{number} does not fit into a signed 64-bit integer"
        raise ValueError(msg)
    return number


def read_position(value: object) -> dict[int, int]:
    """Read a position from a JSON object; raises `ValueError`."""
    if not isinstance(value, Mapping):
        msg = (
            f'{show_json(value)} is not a position; send an object such as {{"0": 40, "1": 12}}'
        )
        raise ValueError(msg)  # noqa: TRY004 (pydantic reports a ValueError)
    return _read_offsets(value.items())


def parse_position(text: str) -> dict[int, int]:
    """Read a position from a query, written ``0:40,1:12``; raises `ValueError`."""
    entries = [entry.partition(":") for entry in text.split(",") if entry]
    if not all(colon for _, colon, _ in entries):
        msg = f"{text!r} is not a position; write segment:offset, such as 0:40,1:12"
        raise ValueError(msg)
    return _read_offsets((number, offset) for number, _, offset in entries)


def format_position(position: Mapping[int, int]) -> str:
    """Write a position for a query."""
    return ",".join(f"{number}:{offset}" for number, offset in position.items())


def _read_offsets(offsets: Iterable[tuple[object, object]]) -> dict[int, int]:
    position: dict[int, int] = {}
    for segment, offset in offsets:
        number = read_integer(segment)
        if number in position:
            msg = f"segment {number} is named twice"
            raise ValueError(msg)
        position[number] = read_integer(offset)
    return position
