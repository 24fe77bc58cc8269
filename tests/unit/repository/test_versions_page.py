"""What docs/explanation/versions-and-limits.md says was run is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
_PAGE = (ROOT / "docs" / "explanation" / "versions-and-limits.md").read_text()
_NAMED = re.compile(r"`(test_\w+)(\.py)?`")


def test_every_test_that_the_page_names_exists() -> None:
    files = {path.stem: path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    there = set(files) | {
        name for text in files.values() for name in re.findall(r"def (test_\w+)", text)
    }
    named = {name for name, _ in _NAMED.findall(_PAGE)}
    assert len(named) >= 20
    assert sorted(named - there) == []
