"""The state of a bucket as one blob.

Two bytes with the format's number, then a pickle of what the operator is and of its state. Users
keep any Python values in their state, and a tuple must not come back as a list: where a step ends
would be seen in the results. Whoever can write a checkpoint can have its readers run code, as with
everything that PySpark pickles.
"""

import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from spark_source.processing.errors import StateMismatchError

_FIRST_FORMAT = 1
_PREFIX = 2

Settings: TypeAlias = Mapping[str, object]
"""What an operator and the state that it reads must have in common."""

Upgrade: TypeAlias = Callable[[Any], Any]
"""What makes a state of one format one of the next."""


def save(settings: Settings, state: object, *, upgrades: Sequence[Upgrade] = ()) -> bytes:
    """Make the blob, in the format that the last upgrade leads to."""
    # A number, so that the blobs of one state are the same in every version of Python.
    number = _FIRST_FORMAT + len(upgrades)
    return number.to_bytes(_PREFIX) + pickle.dumps((dict(settings), state), protocol=5)


def restore(blob: bytes, settings: Settings, *, upgrades: Sequence[Upgrade] = ()) -> Any:  # noqa: ANN401 (the operators' own states)
    """Read a blob, of an earlier format too.

    Parameters
    ----------
    blob
        What `save` returned.
    settings
        Of the operator that reads it.
    upgrades
        Of the operator's states, from each format to the next, the first one first.

    Raises
    ------
    StateMismatchError
        If an unknown format, or an operator with other settings, has saved it.
    """
    known = range(_FIRST_FORMAT, _FIRST_FORMAT + len(upgrades) + 1)
    found_format = int.from_bytes(blob[:_PREFIX])
    if found_format not in known:
        raise StateMismatchError("format", found_format, known[-1])
    found, state = pickle.loads(memoryview(blob)[_PREFIX:])  # noqa: S301 (the query's own state)
    for setting in sorted(found.keys() | settings.keys()):
        if found.get(setting) != settings.get(setting):
            raise StateMismatchError(setting, found.get(setting), settings.get(setting))
    for upgrade in upgrades[found_format - _FIRST_FORMAT :]:
        state = upgrade(state)
    return state
