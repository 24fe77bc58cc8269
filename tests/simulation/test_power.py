"""Whether the simulation finds what is planted: each defect by its law, in its own process."""

import pytest

from tests.effort import Effort
from tests.simulation.defects import DEFECTS
from tests.simulation.test_simulation import simulate

_MOST = 50
_QUICK = {"answer_before_the_commit": 1, "leaky_cut": 1, "half_a_lease": 11}
"""Defects, and the first seed that finds each today."""


def plant(name: str, first: int = 1) -> str:
    """Run seeds until one breaks the law that a defect is about; tell its line, and how."""
    ran = simulate(str(first), "--count", str(_MOST), "--defect", name)
    line, *faults = ran.stdout.rpartition("FAILED")[2].splitlines() or [""]
    broken = [one for one in faults if one.startswith(f"    {DEFECTS[name].law}: ")]
    assert broken, f"{name} was not found: {ran.stdout[-500:]}{ran.stderr}"
    return f"{line}\n{broken[0]}"


@pytest.mark.parametrize("name", _QUICK)
def test_a_defect_is_found_at_once(name: str) -> None:
    assert plant(name, _QUICK[name])


@pytest.mark.soak
@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_is_found(name: str, effort: Effort) -> None:
    found = plant(name)
    effort.note(f"of the seeds {found}", 1)
