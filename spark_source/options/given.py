"""What was given to a format, each option taken once; what nobody takes is an error."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import TypeVar

from spark_source.errors import InvalidOptionError
from tidegauge.client.addresses import InvalidTokenError

_T = TypeVar("_T")
_NEAR = 0.8
"""So much alike is one that is missed and one that is unknown so far: ``seal`` is not ``stream``."""


class GivenOptions:
    """What was given to a format, whatever the case of the names; each is taken once.

    Parameters
    ----------
    given
        By name.
    of
        Whose options they are, as errors say it.
    listed
        Where those that there are can be read.
    """

    def __init__(self, given: Mapping[str, str], *, of: str, listed: str) -> None:
        self._rest = {name.lower(): (name, value) for name, value in given.items()}
        self._of, self._listed = of, listed
        self._known = dict[str, str]()

    def take(
        self, name: str, parse: Callable[[str], _T], default: str | None = None
    ) -> _T | None:
        """Read one that may be left out."""
        self._known[name.lower()] = name
        value = self._rest.pop(name.lower(), (name, None))[1]
        if default is not None:
            value = value or default
        try:
            return None if value is None else parse(value)
        except (ValueError, InvalidTokenError) as error:
            raise InvalidOptionError(name, str(error)) from None

    def need(self, name: str, parse: Callable[[str], _T], example: str) -> _T:
        """Read one that may not."""
        value = self.take(name, parse)
        if not value:
            self.refuse_misspelt(name)
            raise InvalidOptionError(name, f"is required, for example {example}")
        return value

    def is_true(self, name: str) -> bool:
        """Read one that is ``true`` or ``false``, and false if it is left out."""
        return self.take(name, one_of("true", "false")) == "true"

    def take_prefixed(self, prefix: str) -> dict[str, str]:
        """Read all whose names begin with a prefix, by what follows it in lower case."""
        names = [name for name in self._rest if name.startswith(prefix)]
        return {name.removeprefix(prefix): self._rest.pop(name)[1] for name in names}

    def refuse_misspelt(self, name: str) -> None:
        """Refuse what looks like an option that is missed."""
        for near in get_close_matches(name.lower(), self._rest, n=1, cutoff=_NEAR):
            raise self._unknown(self._rest[near][0], f"did you mean {name}?")

    def refuse_others(self, **elsewhere: str) -> None:
        """Refuse what was not taken, with the cure; some are known elsewhere, by other words."""
        known = self._known | elsewhere
        for name, _ in self._rest.values():
            near = get_close_matches(name.lower(), known, n=1)
            cure = f"see {self._listed} for those it has"
            raise self._unknown(name, f"did you mean {known[near[0]]}?" if near else cure)

    def _unknown(self, name: str, cure: str) -> InvalidOptionError:
        return InvalidOptionError(name, f"{self._of} has no such option; {cure}")


def one_of(*allowed: str) -> Callable[[str], str]:
    """Read one of some words."""

    def parse(value: str) -> str:
        if value.lower() not in allowed:
            msg = f"{value!r} is not one of {', '.join(allowed)}"
            raise ValueError(msg)
        return value.lower()

    return parse
