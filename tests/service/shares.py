"""What readers own of a group, and whether they may still read."""

from reader_client import Reader, ReaderGroup
from tidegauge.errors import ReaderFencedError


def shares(group: ReaderGroup) -> dict[str, int]:
    """Count the segments that each reader of a group owns, of all of its streams."""
    readers = group.describe().state.readers
    return {name: sum(map(len, one.owned.values())) for name, one in readers.items()}


def is_fenced(reader: Reader) -> bool:
    """Tell whether a reader is refused; it reads on otherwise."""
    try:
        reader.read_next(wait_ms=0)
    except ReaderFencedError:
        return True
    return False
