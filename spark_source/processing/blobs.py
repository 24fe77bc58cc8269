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

FORMAT = 1
_PREFIX = 2

Settings: TypeAlias = Mapping[str, object]
"""What an operator and the state that it reads must have in common."""


def save(settings: Settings, state: object) -> bytes:
    """Make the blob."""
    # A number, so that the blobs of one state are the same in every version of Python.
    return FORMAT.to_bytes(_PREFIX) + pickle.dumps((dict(settings), state), protocol=5)


def restore(blob: bytes, settings: Settings) -> Any:  # noqa: ANN401 (the operators' own states)
    """Read a blob.

    Raises
    ------
    StateMismatchError
        If another format, or an operator with other settings, has saved it.
    """
    found_format = int.from_bytes(blob[:_PREFIX])
    if found_format != FORMAT:
        raise StateMismatchError("format", found_format, FORMAT)
    found, state = pickle.loads(memoryview(blob)[_PREFIX:])  # noqa: S301 (the query's own state)
    for setting in sorted(found.keys() | settings.keys()):
        if found.get(setting) != settings.get(setting):
            raise StateMismatchError(setting, found.get(setting), settings.get(setting))
    return state
