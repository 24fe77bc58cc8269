"""What guides show runs as it is written, as far as it needs neither a service nor Spark."""

import re
from pathlib import Path

_GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "process.md"
_PYTHON = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_the_processor_of_the_guide_does_in_memory_what_it_says() -> None:
    blocks = _PYTHON.findall(_GUIDE.read_text())
    alone = [one for one in blocks if "EventTimeProcessor" in one or "ProcessorHarness" in one]
    assert len(alone) == 2
    names: dict[str, object] = {}
    for block in alone:
        exec(block, names)
