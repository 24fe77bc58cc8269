"""What every error is made of."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar, dataclass_transform

_LONGEST_HALF = 500


class TidegaugeError(Exception):
    """The base of everything that Tidegauge raises on purpose."""


@dataclass(eq=False)
class ProblemError(TidegaugeError):
    """An answer other than success; its fields are the values in question.

    Attributes
    ----------
    code
        Stable name, one for each class.
    status
        The HTTP status; a code has exactly one.
    """

    code: ClassVar[str]
    status: ClassVar[int]

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}"

    @property
    def detail(self) -> str:
        """What happened and what to do, with the values, for a person."""
        raise NotImplementedError

    def document(self) -> dict[str, Any]:
        """Make the problem document."""
        return {
            "type": f"urn:tidegauge:{self.code}",
            "title": self.code.replace("_", " "),
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
            **{field.name: getattr(self, field.name) for field in fields(self)},
        }


_P = TypeVar("_P", bound=ProblemError)


@dataclass_transform(eq_default=False)
def problem(code: str, status: int) -> Callable[[type[_P]], type[_P]]:
    """Make a class the error of a code, which is answered with a status."""

    def mark(cls: type[_P]) -> type[_P]:
        cls.code, cls.status = code, status
        return dataclass(eq=False)(cls)

    return mark


def shortened(text: str) -> str:
    """Leave out the middle of what was sent: an answer repeats no more than tells what it was.

    What is wrong begins a message, and the cure ends it. A shortened text stays as it is.
    """
    if len(text) <= 2 * _LONGEST_HALF:
        return text
    return f"{text[:_LONGEST_HALF]} … {text[-_LONGEST_HALF:]}"
