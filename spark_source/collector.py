"""Python's collector of cycles, where many objects are made that live for a while."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collector() -> Iterator[None]:
    """Pause the collector, and leave it as it was found.

    What a page of records or the state of a bucket is made of lives until the step ends. To go through all of it
    again and again, as the collector does where so much is made, takes a third of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
