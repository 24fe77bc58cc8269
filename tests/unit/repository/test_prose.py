"""The linter of prose finds what it is for, and leaves code alone."""

import re
from pathlib import Path
from types import ModuleType

import pytest

from tests.programs import script

LONG = " ".join(["word"] * 31)


@pytest.fixture(scope="module")
def linter() -> ModuleType:
    module = script("lint_prose")
    module.register()
    return module


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The writer was told a time.", ["told"]),
        ("Nobody holds it.", ["Nobody"]),
        (
            "It says until\nwhen, and back. A log says so.",
            ["until when", "and back.", "says so"],
        ),
        ("Also if the rows are there: it reads on.", ["Also if", "are there:", "reads on"]),
        ("It was made again, and says nothing of it.", ["made again", "says nothing of"]),
        (
            "URLs with commas between. The day is not over.",
            ["with commas between", "is not over"],
        ),
        ("Upgrade and back up: is there a version that says nothing?", []),
        (f"First {LONG}.", ["32 words"]),
        (f"A short one. {LONG}; and more.", ["33 words"]),
        (f"| {LONG[:70]} | {LONG[70:]} |", []),
        (f"- {LONG[:70]}\n- {LONG[70:]}", []),
        ("`nobody` and\n\n```\nnobody was told\n```\n", []),
        ("> 'x' holds it; nobody was told", []),
        ("[a link](nobody/told.md) is fine.", []),
    ],
)
def test_words_and_lengths(
    linter: ModuleType, tmp_path: Path, text: str, found: list[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n{text}\n")
    said = [
        re.sub(r".*(?:not '|of )(.*?)('\.|: make).*", r"\1", it) for it in linter.lint(page)
    ]
    assert said == found
