"""The state of a bucket as one blob.

Two bytes with the format's number, then a pickle of what the operator is and of its state. Users
keep any Python values in their state, and a tuple must not come back as a list: where a step ends
would be seen in the results. Whoever can write a checkpoint can have its readers run code, as with
everything that PySpark pickles.
"""

import pickle
from collections.abc import Mapping
from typing import Any, TypeAlias

from spark_source.processing.errors import StateMismatchError

_FORMAT = 3
"""Of the blob, and of the keys in it: their form and their buckets, see `keys`."""
_PREFIX = 2

Settings: TypeAlias = Mapping[str, object]
"""What an operator and the state that it reads must have in common."""


def save(settings: Settings, state: object) -> bytes:
    """Make the blob."""
    # A number, so that the blobs of one state are the same in every version of Python.
    return _FORMAT.to_bytes(_PREFIX) + pickle.dumps((dict(settings), state), protocol=5)


def check_format(blob: bytes) -> None:
    """Raise `StateMismatchError` if a blob is of another format."""
    found = int.from_bytes(blob[:_PREFIX])
    if found != _FORMAT:
        raise StateMismatchError("format", found, _FORMAT)


def restore(blob: bytes, settings: Settings) -> Any:  # noqa: ANN401 (the operators' own states)
    """Read a blob.

    Parameters
    ----------
    blob
        What `save` returned.
    settings
        Of the operator that reads it.

    Raises
    ------
    StateMismatchError
        If another version, or an operator with other settings, has saved it.
    """
    check_format(blob)
    found, state = pickle.loads(memoryview(blob)[_PREFIX:])  # noqa: S301 (the query's own state)
    for setting in sorted(found.keys() | settings.keys()):
        if found.get(setting) != settings.get(setting):
            raise StateMismatchError(setting, found.get(setting), settings.get(setting))
    return state
