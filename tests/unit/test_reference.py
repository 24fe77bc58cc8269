"""The examples in docstrings that need nobody else are right."""

import doctest
import importlib
from pathlib import Path

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
