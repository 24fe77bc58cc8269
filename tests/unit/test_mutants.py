"""Mutants are drawn by a seed, and each is a change of one place that compiles."""

from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def mutants(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    return import_module("mutants")


def test_a_seed_draws_the_same_mutants_and_each_compiles(mutants: ModuleType) -> None:
    places = mutants.find(ROOT)
    statements = {place.statement for place in places.values()}
    drawn = mutants.draw(places, statements, 1, 60)
    assert drawn == mutants.draw(places, statements, 1, 60)
    assert len({*drawn}) == 60
    for mutant in drawn:
        source = (ROOT / mutant.file).read_text()
        changed = mutants.change(source, mutant, places[mutant].node)
        compile(changed, mutant.file, "exec")
        assert changed != source


@pytest.mark.parametrize(
    ("source", "changes"),
    [
        ("if a < b <= c: pass", ["a <= b <= c", "a < b < c"]),
        ("x = a and (b + 1)", ["a or b + 1", "b - 1"]),
        ("x = a + [b]", []),
        ("if not a: pass", ["a"]),
        ("while a.b: pass", ["not a.b"]),
        ("log.info(a < b)", []),
        ("await f(1)", ["pass"]),
        ("a.b = 1", ["pass"]),
        ("a = 1", []),
        ("a += 1", ["pass"]),
        ("def f(a=b < c): pass", []),
    ],
)
def test_each_operator_changes_what_it_is_for(
    source: str, changes: list[str], mutants: ModuleType, tmp_path: Path
) -> None:
    package = tmp_path / "controller"
    package.mkdir()
    (package / "__init__.py").write_text(source)
    assert [mutant.after for mutant in mutants.find(tmp_path)] == changes
