"""What is in memory while no garbage is collected."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Collect no garbage: what leads back to itself stays in memory."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def count_of(kind: type) -> int:
    """Count the objects of a class that are in memory."""
    return sum(type(one) is kind for one in gc.get_objects())
