"""What the distribution is made of, and that a role pulls only what it needs."""

import importlib
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.linked import CONFIGURATION, ROOT
from tests.server import ServerProcess
from tests.service.api import Api
from tidegauge.errors import PROBLEMS
from tidegauge.extras import how_to_install

PACKAGES = CONFIGURATION["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]

REPORTING = """
import importlib.util, sys
from reader_client import StreamClient
from writer_client import TimeReporter

assert importlib.util.find_spec("pyarrow") is None
with TimeReporter(sys.argv[1], sys.argv[2], "api-1") as reporter:
    reporter.note_time(1_700_000_000_000, {0: 3})
with StreamClient(sys.argv[1], sys.argv[2]) as client:
    print([one.writer for one in client.writers()])
    try:
        next(client.read(0, 0, 3))
    except ImportError as error:
        print(error)
"""
WRITING = """
import importlib.util, writer_client
unwanted = ("fastapi", "sqlalchemy", "pyspark", "uvicorn")
print([name for name in unwanted if importlib.util.find_spec(name)])
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    _pip("wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
    return next(folder.glob("tidegauge-*.whl"))


def _pip(*arguments: str) -> None:
    constraints = ["--constraint", str(ROOT / "constraints.txt")]
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*command, *arguments, *constraints], check=True)


def test_a_reporter_needs_no_arrow_and_a_writer_neither_the_service_nor_spark(
    wheel: Path, tmp_path: Path, server: ServerProcess
) -> None:
    venv.create(tmp_path / "venv")
    python = str(tmp_path / "venv" / "bin" / "python")

    def run(extra: str, *code: str) -> list[str]:
        _pip("--python", python, "install", "--no-compile", f"{wheel}[{extra}]")
        command = [python, "-I", "-c", *code]
        return subprocess.check_output(command, text=True).splitlines()

    with Api(server.url) as api:
        api.create()
        assert run("reporter", REPORTING, server.url, api.name) == [
            "['api-1']",
            f"reading events needs pyarrow; {how_to_install('reader')}",
        ]
        assert api.watermark == 1_700_000_000_000
    assert run("writer", WRITING) == ["[]"]


def test_the_wheel_is_typed_and_names_no_addresses(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = next(name for name in names if name.endswith("METADATA"))
        header = archive.read(metadata).decode().partition("\n\n")[0]
    assert [one for one in PACKAGES if f"{one}/py.typed" not in names] == []
    assert re.findall(r"Requires-Dist: .*@", header) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_what_is_public_is_listed(package: str) -> None:
    module = importlib.import_module(package)
    listed = set(module.__all__)
    public = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not isinstance(value, type(sys))
    }
    assert public <= listed
    assert [name for name in listed if not hasattr(module, name)] == []


def test_every_error_code_has_one_status_and_one_class() -> None:
    assert len({cls.__name__ for cls in PROBLEMS.values()}) == len(PROBLEMS)
    assert all(cls.status == 307 or 400 <= cls.status < 600 for cls in PROBLEMS.values())
    assert all(cls.__name__.endswith("Error") for cls in PROBLEMS.values())
