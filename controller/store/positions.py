"""Positions as they are stored: JSON objects with segment numbers as keys."""

import orjson

from tidegauge.topology import Position


def dump_position(position: Position) -> str:
    """Write a position as JSON text."""
    return orjson.dumps(position, option=orjson.OPT_NON_STR_KEYS).decode()


def load_position(text: str) -> dict[int, int]:
    """Read a position back."""
    return {_numbers[number]: offset for number, offset in orjson.loads(text).items()}


class _Numbers(dict[str, int]):
    """Numbers of segments by their text: looked up, and kept in memory, once for all rows."""

    def __missing__(self, text: str) -> int:
        number = self[text] = int(text)
        return number


_numbers = _Numbers()
