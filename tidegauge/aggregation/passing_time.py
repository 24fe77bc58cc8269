"""Time that passes only while others go on: what the clocks of writers are read in."""

from dataclasses import dataclass


@dataclass(slots=True)
class PassingTime:
    """Listening time, of which a gap counts at most half of a setting.

    A gap lies between two looks that found somebody going on, and after the latest such look.
    So nobody is dropped while nobody goes on, and afterwards there is time to report.

    Attributes
    ----------
    ms
        How much had passed at the latest look.
    counted_ms
        How much of that is of the present gap: time never goes back, whatever the setting.
    moved_ms
        Listening time of the look that last found somebody going on; None before the first.
    """

    ms: int = 0
    counted_ms: int = 0
    moved_ms: int | None = None

    def at(self, now_ms: int, setting_ms: int | None) -> int:
        """Return how much has passed, ms; without a setting no time passes, since nobody asks."""
        if self.moved_ms is None or setting_ms is None:
            return self.ms
        counted_ms = min(now_ms - self.moved_ms, _most(setting_ms))
        return self.ms + max(0, counted_ms - self.counted_ms)

    def stopped_ms(self, now_ms: int, setting_ms: int | None) -> int | None:
        """Return since when nobody went on, once no time passes until somebody does; else None."""
        gap_ms = now_ms - (self.moved_ms or 0)
        passes = self.moved_ms is not None and gap_ms < _most(setting_ms or 0)
        return None if passes or setting_ms is None else gap_ms

    def look(self, now_ms: int, setting_ms: int | None, *, goes_on: bool) -> int:
        """Advance to a look that found, or did not find, that a writer goes on."""
        ms = self.at(now_ms, setting_ms)
        self.counted_ms += ms - self.ms
        self.ms = ms
        if goes_on:
            self.counted_ms, self.moved_ms = 0, now_ms
        return ms

    def reaches(self, goal_ms: int, setting_ms: int) -> int | None:
        """Return the listening time at which so much has passed; None if somebody has to go on."""
        counted_ms = goal_ms - self.ms + self.counted_ms
        if self.moved_ms is None or counted_ms > _most(setting_ms):
            return None
        return self.moved_ms + max(0, counted_ms)


def _most(setting_ms: int) -> int:
    """Return how much of a gap counts at most: half of the setting, rounded up."""
    return (setting_ms + 1) // 2
