"""Scales: on which height or place of a picture something is drawn."""

from collections.abc import Sequence
from math import log10

from tidegauge_dashboard.page.words import Part

TWO_DAYS_S = 172_800
_UNITS = (("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18))
_TICKS_S = (
    (30 * 86_400, "30 d"),
    (86_400, "1 d"),
    (3_600, "1 h"),
    (600, "10 m"),
    (60, "1 m"),
    (10, "10 s"),
    (1, "1 s"),
)
_ROOM = 1.5
"""How much farther than the farthest a scale goes, so that its bar is seen."""
_APART = 12
"""Percent between two ticks."""


def water_height(age_ms: int) -> int:
    """How full a tube is, in percent: full is now, empty is two days old.

    Examples
    --------
    >>> [water_height(age_s * 1000) for age_s in (0, 60, 3_600, 172_800)]
    [100, 66, 32, 0]
    """
    age_s = max(0, age_ms) / 1_000
    return round(100 * max(0.0, 1 - log10(1 + age_s) / log10(1 + TWO_DAYS_S)))


def relative_heights(values: Sequence[int | None]) -> list[int | None]:
    """Heights of values that have no age, between the least and the greatest of them."""
    known = [value for value in values if value is not None]
    if not known:
        return [None] * len(values)
    low, high = min(known), max(known)
    wide = high - low
    return [
        None if value is None else 8 + (84 * (value - low) // wide if wide else 0)
        for value in values
    ]


class BehindScale:
    """Places on a logarithmic scale of how far something is behind, 0 (farthest) to 100 (not at all).

    Parameters
    ----------
    most
        What is drawn at 0, and all beyond it.
    unit
        What counts as one: 1 000 for spans in ms.
    """

    def __init__(self, most: int, unit: int) -> None:
        self._unit = unit
        self._whole = log10(1 + max(most, 10 * unit) / unit)

    @classmethod
    def of(cls, behind: Sequence[int], *, dated: bool) -> "BehindScale":
        """Choose a scale that begins a little beyond the farthest of these."""
        most = max(behind, default=0)
        return cls(round(_ROOM * most), 1_000) if dated else cls(most, 1)

    @classmethod
    def of_two_days(cls) -> "BehindScale":
        """Return a scale that is always the same."""
        return cls(TWO_DAYS_S * 1_000, 1_000)

    def place(self, behind: int) -> float:
        """Return where something is drawn, in percent."""
        part = log10(1 + max(0, behind) / self._unit) / self._whole
        return round(100 * max(0.0, 1 - part), 2)

    def ticks(self) -> list[Part]:
        """List what is written below it."""
        if self._unit == 1_000:
            return self._spans()
        return [
            {"x": self.place(10**power), "text": f"1{unit}"}
            for unit, power in reversed(_UNITS)
            if log10(1 + 10**power) <= self._whole
        ]

    def _spans(self) -> list[Part]:
        ticks: list[Part] = []
        for seconds, text in _TICKS_S:
            place = self.place(1_000 * seconds)
            if 0 < place <= 100 - _APART and (not ticks or place - ticks[-1]["x"] >= _APART):
                ticks.append({"x": place, "text": text})
        return ticks
