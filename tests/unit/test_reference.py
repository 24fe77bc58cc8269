"""The reference has what the code has, and its examples that need nobody else are right."""

import doctest
import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PURE = ("dashboard/look/*.py", "tidegauge/**/*.py", "writer_client/strategies.py")
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for pattern in PURE
    for path in sorted(ROOT.glob(pattern))
    if ">>> " in path.read_text()
]


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_the_reference_are_right(module: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(module))
    assert (failed, tried > 0) == (0, True)


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    script = ROOT / "scripts" / "reference_pages.py"
    spec = importlib.util.spec_from_file_location("reference_pages", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_generated_parts_of_the_reference_are_fresh(generator: ModuleType) -> None:
    texts = {path: path.read_text() for path in generator.PAGES.rglob("*.md")}
    assert sum("<!-- generated:" in text for text in texts.values()) == 19
    stale = [path.name for path, text in texts.items() if generator.write(text) != text]
    assert stale == [], "run python scripts/reference_pages.py"
