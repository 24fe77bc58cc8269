"""Whether the simulation finds what is planted: each defect in a few seeds, in its own process."""

import pytest

from tests.effort import Effort
from tests.simulation.defects import DEFECTS
from tests.simulation.test_simulation import simulate

_MOST = 50
_QUICK = "answer_before_the_commit", "torn_transaction", "no_lease_check"


def plant(name: str) -> str:
    """Run seeds until one finds a defect; tell its line, and what it found first."""
    ran = simulate("1", "--count", str(_MOST), "--defect", name)
    *_, found = ran.stdout.partition("FAILED")
    assert found, f"{name} was not found: {ran.stdout[-500:]}{ran.stderr}"
    return "\n".join(found.splitlines()[:2])


@pytest.mark.parametrize("name", _QUICK)
def test_a_defect_is_found_at_once(name: str) -> None:
    assert plant(name)


@pytest.mark.soak
@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_is_found(name: str, effort: Effort) -> None:
    found = plant(name)
    effort.note(f"of the seeds {found}", 1)
