"""The core does exactly what the brute-force model does, whatever happens."""

from hypothesis import given

from tests.property import scripts
from tests.property.events import Shape
from tests.property.model import Rules
from tests.property.pair import Pair
from tests.property.scripts import Step, run_script


@given(scripts.shapes, scripts.rules, scripts.scripts)
def test_marks_expiries_and_states_are_those_of_the_model(
    shape: Shape, rules: Rules, script: list[Step]
) -> None:
    run_script(Pair(shape, rules), script)


@given(scripts.shapes, scripts.rules, scripts.restarted_scripts)
def test_a_core_restored_from_storage_goes_on_the_same(
    shape: Shape, rules: Rules, script: list[Step]
) -> None:
    run_script(Pair(shape, rules), script)
