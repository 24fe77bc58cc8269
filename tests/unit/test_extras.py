"""What is missing is named with how to install it, from files that the reader has."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tidegauge.extras import how_to_install

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "controller",
    "reader_client",
    "spark_source",
    "tidegauge",
    "tidegauge_cli",
    "tidegauge_dashboard",
    "writer_client",
)
PAGES = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.py")]
CODE = [path for name in PACKAGES for path in (ROOT / name).rglob("*.py")]
WITHOUT = """
import sys

class Without:
    def find_spec(self, name, path=None, target=None):
        if name in sys.argv[1].split(","):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Without())
try:
    exec(sys.argv[2])
except (ImportError, SystemExit) as error:
    print(error)
"""


def _import_without(missing: str, statement: str) -> str:
    command = [sys.executable, "-c", WITHOUT, missing, statement]
    told = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return told.stdout.strip()


def test_an_extra_is_installed_from_a_checkout_or_a_wheel() -> None:
    assert how_to_install("spark") == (
        "run pip install '.[spark]' in a checkout of Tidegauge, or with its wheel "
        "pip install 'WHEEL[spark]'"
    )


@pytest.mark.parametrize(
    ("name", "missing", "extra"),
    [
        ("spark_source.read_stream", "pyspark", "spark"),
        ("spark_source.ProgressListener", "pyspark", "spark"),
        ("reader_client.StreamClient", "httpx", "reporter"),
        ("writer_client.TimeReporter", "httpx", "reporter"),
        ("writer_client.Writer", "pyarrow", "writer"),
        ("writer_client.kafka", "confluent_kafka", "kafka"),
    ],
)
def test_a_missing_package_names_the_extra(name: str, missing: str, extra: str) -> None:
    package, _, needed = name.partition(".")
    shown = _import_without(missing, f"from {package} import {needed}")
    assert shown == f"{name} needs {missing}; {how_to_install(extra)}"


def test_the_command_line_names_the_extra_that_it_lacks() -> None:
    shown = _import_without("typer", "from tidegauge_cli import main; main()")
    assert shown == f"typer is not installed; {how_to_install('cli')}"


def test_operators_and_their_harness_need_no_spark() -> None:
    assert _import_without("pyspark,pyarrow,httpx", "import spark_source.testing") == ""


def test_nobody_is_told_to_install_a_project_of_this_name() -> None:
    """It is not published, so that the name may be a stranger's."""
    told = re.compile(r"tidegauge\[[a-z]|install tidegauge")
    assert [str(path) for path in (*PAGES, *CODE) if told.search(path.read_text())] == []
