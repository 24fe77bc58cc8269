"""How often long tests try: a few times by a fixed seed in `make test`, many times in `make soak`.

A test that has a long form asks the fixture ``effort`` how often to try; tests of Hypothesis have
one by the profile that is loaded.
"""

from collections.abc import Callable

from hypothesis import HealthCheck, settings

_RECORD = "tried"
_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


class Effort:
    """How often a test tries.

    Parameters
    ----------
    record
        Takes a name and a value of the test's report.
    soaks
        Whether this is a run of the long forms.
    """

    def __init__(self, record: Callable[[str, object], None], *, soaks: bool) -> None:
        self._record = record
        self._soaks = soaks

    def times(self, what: str, *, short: int, long: int) -> int:
        """Choose how often, and have the report say it."""
        chosen = long if self._soaks else short
        self.note(what, chosen)
        return chosen

    def note(self, what: str, found: int) -> None:
        """Have the report say what was found."""
        self._record(_RECORD, f"{found} {what}")


def load_profile(*, soaks: bool) -> None:
    """Say how many examples Hypothesis makes: few and always the same ones, or many others."""
    settings.register_profile(
        "tests",
        deadline=None,
        database=None,
        derandomize=not soaks,
        max_examples=5_000 if soaks else 70,
        print_blob=True,
        suppress_health_check=_SLOW,
    )
    settings.load_profile("tests")


def told(properties: list[tuple[str, object]]) -> list[object]:
    """Read from a test's report what was tried."""
    return [value for name, value in properties if name == _RECORD]
