"""What is missing is named with how to install it, from files that the reader has."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tidegauge.extras import how_to_install

ROOT = Path(__file__).parents[3]
PACKAGES = (
    "controller",
    "reader_client",
    "spark_source",
    "tidegauge",
    "tidegauge_cli",
    "writer_client",
)
PAGES = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.py")]
CODE = [path for name in PACKAGES for path in (ROOT / name).rglob("*.py")]
WITHOUT = """
import sys

MISSING = sys.argv[1].split(",")

class Without:
    def __init__(self, finder):
        self._finder = finder

    def find_spec(self, name, *more):
        return None if name.partition(".")[0] in MISSING else self._finder.find_spec(name, *more)

    def find_distributions(self, context):
        is_missing = (context.name or "").replace("-", "_") in MISSING
        find = getattr(self._finder, "find_distributions", None)
        return find(context) if find and not is_missing else []

sys.meta_path[:] = map(Without, sys.meta_path)
try:
    exec(sys.argv[2])
except (ImportError, SystemExit) as error:
    print(error)
"""


def _import_without(missing: str, statement: str, *, behind: Path | None = None) -> str:
    """Run a statement without packages, or with those of a folder in place of what is installed."""
    statement = f"sys.path.insert(0, {str(behind)!r})\n{statement}" if behind else statement
    command = [sys.executable, "-c", WITHOUT, missing, statement]
    told = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return told.stdout.strip()


def _install(folder: Path, package: str, version: str) -> None:
    """Install an empty package of a version."""
    (folder / package).mkdir()
    (folder / package / "__init__.py").touch()
    (folder / package / "version.py").write_text(f"__version__ = {version!r}")
    (folder / f"{package}-{version}.dist-info").mkdir()
    metadata = f"Metadata-Version: 2.4\nName: {package}\nVersion: {version}\n"
    (folder / f"{package}-{version}.dist-info" / "METADATA").write_text(metadata)


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
        ("reader_client.Reader", "pyarrow", "reader"),
        ("writer_client.kafka", "confluent_kafka", "kafka"),
        ("writer_client.kafka", "httpx", "kafka"),
        ("reader_client.kafka", "tenacity", "kafka"),
        ("tidegauge.tables.note", "httpx", "tables"),
    ],
)
def test_a_missing_package_names_the_extra(name: str, missing: str, extra: str) -> None:
    package, _, needed = name.rpartition(".")
    shown = _import_without(missing, f"from {package} import {needed}")
    assert shown == f"{name} needs {missing}; {how_to_install(extra)}"


@pytest.mark.parametrize(
    ("name", "package", "version", "needed", "extra"),
    [
        ("reader_client.StreamClient", "tenacity", "6.2", r"tenacity>=9\.2", "reporter"),
        ("writer_client.kafka", "confluent_kafka", "1.9", r"confluent-kafka>=2\.16", "kafka"),
        ("controller.serve", "uvicorn", "0.15", r"uvicorn\[standard\].*", "controller"),
    ],
)
def test_a_package_that_is_too_old_is_not_called_missing(
    tmp_path: Path, name: str, package: str, version: str, needed: str, extra: str
) -> None:
    _install(tmp_path, package, version)
    origin, _, asked = name.rpartition(".")
    shown = _import_without("none", f"from {origin} import {asked}", behind=tmp_path)
    said = rf"{name} needs {needed}, and {re.escape(version)} is installed \(.*\); "
    assert re.fullmatch(said + re.escape(how_to_install(extra)), shown)


def test_the_version_of_spark_is_asked_before_anything_of_it_is_imported(
    tmp_path: Path,
) -> None:
    """Some versions cannot be imported at all with some Pythons."""
    _install(tmp_path, "pyspark", "3.5.8")
    (tmp_path / "pyspark" / "__init__.py").write_text("import typing.io")
    statement = (
        "from tidegauge.errors import TidegaugeError\n"
        "try: from spark_source import read_stream\n"
        "except TidegaugeError as error: print(error)"
    )
    assert _import_without("none", statement, behind=tmp_path) == (
        "PySpark 3.5.8 is not supported: Tidegauge runs on 4.1, 4.2 and 4.3; "
        "run pip install 'pyspark>=4.1,<4.4'"
    )


@pytest.mark.parametrize(
    ("arguments", "missing", "extra"),
    [
        (["why", "demo/rides"], "typer", "cli"),
        (["serve"], "typer", "controller"),
        (["db", "upgrade"], "typer", "controller"),
        (["observe", "kafka"], "typer", "cli,kafka"),
        (["table", "/data/flights"], "typer", "cli,tables"),
        (["observe", "kafka", "demo/x"], "confluent_kafka", "kafka"),
    ],
)
def test_the_command_line_names_all_that_a_verb_lacks_at_the_first_try(
    arguments: list[str], missing: str, extra: str
) -> None:
    statement = f"sys.argv[1:] = {arguments}; from tidegauge_cli import main; main()"
    shown = _import_without(missing, statement)
    assert shown == f"tidegauge needs {missing}; {how_to_install(extra)}"


def test_operators_and_their_harness_need_no_spark() -> None:
    assert _import_without("pyspark,pyarrow,httpx", "import spark_source.testing") == ""


def test_nobody_is_told_to_install_a_project_of_this_name() -> None:
    """It is not published, so that the name may be a stranger's."""
    told = re.compile(r"tidegauge\[[a-z]|install tidegauge")
    assert [str(path) for path in (*PAGES, *CODE) if told.search(path.read_text())] == []
