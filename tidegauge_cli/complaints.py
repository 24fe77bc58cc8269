"""What is wrong with options, in the words in which they are typed."""

from pydantic import ValidationError


def what_is_wrong(error: Exception) -> str:
    """Say why the service does not start."""
    if not isinstance(error, ValidationError):
        return str(error)
    return "; ".join(_wrong(one["loc"], one["msg"], one["input"]) for one in error.errors())


def _wrong(place: tuple[int | str, ...], message: str, given: object) -> str:
    reason = message.removeprefix("Value error, ")
    option = "-".join(map(str, place)).replace("_", "-")
    return f"--{option} {given}: {reason}" if place else reason
