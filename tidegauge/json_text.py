"""JSON as callers send it: read strictly, and shown as they wrote it, never as Python does."""

import json
import re
from typing import Any

_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|(NaN|-?Infinity)')
"""Strings, and outside of them what is no number."""
_LONGEST_INTEGER = 100
"""Far beyond 64 bits; reading an integer takes time with the square of its digits."""


def parse_json(body: bytes) -> Any:  # noqa: ANN401 (JSON)
    """Read JSON; ``ValueError`` if it is none, names a key twice, or is nested too deeply."""
    try:
        return json.loads(
            body.decode(),
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_constant=_refuse_constant,
        )
    except _ConstantError as error:
        constants = (token for token in _TOKENS.finditer(body) if token[1])
        place = next(constants).start(1)
        msg = f"has {error}, which is not JSON (byte {place})"
        raise ValueError(msg) from None
    except RecursionError:
        msg = "is nested too deeply"
        raise ValueError(msg) from None


def show_json(value: object) -> str:
    """Return a value as an answer shows it to its sender: text in quotes, all else as JSON."""
    return repr(value) if isinstance(value, str) else json.dumps(value, default=str)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        msg = f"names {twice!r} twice in one object; send it once"
        raise ValueError(msg)
    return members


def _integer(text: str) -> int:
    if len(text) > _LONGEST_INTEGER:
        msg = f"has an integer of {len(text)} digits, {text[:20]}…; 64 bits hold 19"
        raise ValueError(msg)
    return int(text)


class _ConstantError(Exception):
    """A number that Python's reader takes, and JSON does not have."""


def _refuse_constant(name: str) -> None:
    raise _ConstantError(name)
