"""What guides show runs as it is written, as far as it needs neither a service nor Spark."""

import re
from pathlib import Path

_DOCS = Path(__file__).parents[3] / "docs"
_GUIDE = _DOCS / "how-to" / "process.md"
_PYTHON = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_the_processor_of_the_guide_does_in_memory_what_it_says() -> None:
    blocks = _PYTHON.findall(_GUIDE.read_text())
    alone = [one for one in blocks if "EventTimeProcessor" in one or "ProcessorHarness" in one]
    assert len(alone) == 2
    names: dict[str, object] = {}
    for block in alone:
        exec(block, names)


def test_each_page_that_names_the_format_in_code_registers_it_first() -> None:
    code = {
        path.stem: "".join(_PYTHON.findall(path.read_text())) for path in _DOCS.rglob("*.md")
    }
    before = {
        page: text.partition('.format("tidegauge")')[0]
        for page, text in code.items()
        if '.format("tidegauge")' in text
    }
    assert before.keys() == {"chain-jobs", "source-options"}
    register = "spark.dataSource.register(TidegaugeDataSource)"
    assert [page for page, text in before.items() if register not in text] == []
