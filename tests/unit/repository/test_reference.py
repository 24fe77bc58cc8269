"""The reference has what the code has, and its examples that need nobody else are right."""

import doctest
import importlib
from inspect import getdoc
from pathlib import Path
from types import ModuleType

import pytest

import reader_client
import writer_client
from tests.programs import script

ROOT = Path(__file__).parents[3]
PURE = ("tidegauge/**/*.py", "writer_client/strategies.py")
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


@pytest.mark.parametrize("client", [reader_client, writer_client])
def test_the_help_of_a_synchronous_face_has_the_parameters_of_the_asynchronous_one(
    client: ModuleType,
) -> None:
    faces = [name for name in client.__all__ if f"Async{name}" in client.__all__]
    assert len(faces) > 1
    for name in faces:
        _, _, parameters = _help_of(client, f"Async{name}").partition("Parameters\n---")
        if parameters:
            first_lines = parameters.partition("\n\n")[0]
            assert first_lines in _help_of(client, name), name


def _help_of(module: ModuleType, name: str) -> str:
    return getdoc(getattr(module, name)) or ""


def test_the_generated_parts_of_the_reference_are_fresh() -> None:
    generator = script("reference_pages")
    texts = {path: path.read_text() for path in generator.PAGES.rglob("*.md")}
    assert sum("<!-- generated:" in text for text in texts.values()) == 19
    stale = [path.name for path, text in texts.items() if generator.write(text) != text]
    assert stale == [], "run python scripts/reference_pages.py"
