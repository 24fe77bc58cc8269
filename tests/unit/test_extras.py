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
    ("missing", "statement", "needs", "extra"),
    [
        (
            "pyspark",
            "from spark_source import read_stream",
            "spark_source.read_stream needs pyspark",
            "spark",
        ),
        (
            "pyspark",
            "from spark_source import ProgressListener",
            "spark_source.ProgressListener needs pyspark",
            "spark",
        ),
        (
            "httpx",
            "from reader_client import StreamClient",
            "reader_client.StreamClient needs httpx",
            "reporter",
        ),
        (
            "httpx",
            "from writer_client import TimeReporter",
            "writer_client.TimeReporter needs httpx",
            "reporter",
        ),
        (
            "pyarrow",
            "from writer_client import Writer",
            "writer_client.Writer needs pyarrow",
            "writer",
        ),
        (
            "confluent_kafka",
            "import writer_client.kafka",
            "writer_client.kafka needs confluent_kafka",
            "kafka",
        ),
        ("typer", "from tidegauge_cli import main; main()", "typer is not installed", "cli"),
    ],
)
def test_a_missing_package_names_the_extra(
    missing: str, statement: str, needs: str, extra: str
) -> None:
    assert _import_without(missing, statement) == f"{needs}; {how_to_install(extra)}"


def test_operators_and_their_harness_need_no_spark() -> None:
    assert _import_without("pyspark,pyarrow,httpx", "import spark_source.testing") == ""


def test_nobody_is_told_to_install_a_project_of_this_name() -> None:
    """It is not published, so that the name may be a stranger's."""
    told = re.compile(r"tidegauge\[[a-z]|install tidegauge")
    assert [str(path) for path in (*PAGES, *CODE) if told.search(path.read_text())] == []
