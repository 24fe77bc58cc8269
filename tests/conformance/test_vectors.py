"""The conformance vectors: one test a case, named after it.

``TIDEGAUGE_VECTORS`` names a directory of more files of the same forms.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.runner import run_case

HERE = Path(__file__).parent / "vectors"


def _cases() -> list[dict[str, Any]]:
    directories = [HERE]
    if "TIDEGAUGE_VECTORS" in os.environ:
        directories.append(Path(os.environ["TIDEGAUGE_VECTORS"]).resolve(strict=True))
    return [
        case
        for directory in directories
        for path in sorted(directory.glob("*.json"))
        for case in json.loads(path.read_text())
    ]


_ALL = _cases()
CASES = [case for case in _ALL if "operator" not in case]
EVENT_TIME_CASES = [case for case in _ALL if "operator" in case]
"""Those of `processing.json`, which are about operators; see `test_event_time.py`."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_vector(case: dict[str, Any]) -> None:
    run_case(case)
