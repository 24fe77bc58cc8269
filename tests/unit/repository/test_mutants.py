"""Each mutant is a change of one place, and compiles."""

import random
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def mutants(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    return import_module("mutants")


def test_each_mutant_of_this_repository_compiles(mutants: ModuleType) -> None:
    nodes = mutants.find(ROOT)
    for mutant in random.Random(1).sample([*nodes], 60):
        source = (ROOT / mutant.file).read_text()
        changed = mutants.change(source, mutant, nodes[mutant])
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
        ("def __init__(self): self.a = 1", []),
    ],
)
def test_each_operator_changes_what_it_is_for(
    source: str, changes: list[str], mutants: ModuleType, tmp_path: Path
) -> None:
    package = tmp_path / "controller"
    package.mkdir()
    (package / "process.py").write_text(source)
    assert [mutant.after for mutant in mutants.find(tmp_path)] == changes
