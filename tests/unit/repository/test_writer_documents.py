"""What docs/reference/writers.md says is what the tests of writers assert."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.service.api import MINUTE, NOON

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs" / "reference" / "writers.md").read_text()
STORIES = ROOT / "tests" / "unit" / "controller" / "test_writer_troubles.py"
CALLS = ROOT / "tests" / "unit" / "controller" / "test_writer_lifecycle.py"


def _literals(source: Path) -> Iterator[Any]:
    """Find the dictionaries that a test writes out."""
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Dict):
            try:
                yield eval(
                    compile(ast.Expression(node), source.name, "eval"),
                    {"NOON": NOON, "MINUTE": MINUTE},
                )
            except NameError:
                continue


def _documented() -> Iterator[Any]:
    """Find the JSON objects that the document shows in full."""
    for fenced, quoted in re.findall(r"```json\n(.*?)```|`(\{[^`]*\})`", DOCUMENT, re.DOTALL):
        text = fenced or quoted
        if "…" not in text and '"time": T' not in text:
            yield json.loads(text)


def test_every_answer_of_the_document_is_asserted_by_a_test() -> None:
    asserted = [*_literals(STORIES), *_literals(CALLS)]
    documented = list(_documented())
    assert len(documented) >= 10
    assert [one for one in documented if one not in asserted] == []


def test_every_story_of_the_document_is_a_test_and_the_other_way_round() -> None:
    told = set(re.findall(r"\btest_\w+(?=[,*])", DOCUMENT))
    tests = set(re.findall(r"^def (test_\w+)", STORIES.read_text(), re.MULTILINE))
    assert told == tests
