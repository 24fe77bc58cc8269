"""Clients that others generate from the OpenAPI document: they are whole, and compile."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from tests.server import ServerProcess

pytestmark = pytest.mark.soak

GENERATOR = "org.openapitools:openapi-generator-cli:7.25.0"
PYTHON_GENERATOR = "openapi-python-client==0.29.1"
"""In an environment of its own: it wants another Typer than the command line does."""
BEYOND_PYTHON = {"append", "append_lines", "stage", "stage_lines"}
"""That generator leaves out bodies of Arrow and of lines of JSON, and says so."""
TAGS = ("Events", "Marks", "Operations", "ReaderGroups", "Streams", "Transactions", "Writers")


def _run(command: Sequence[object]) -> str:
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def document(shared_server: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The document as a file."""
    file = tmp_path_factory.mktemp("document") / "openapi.json"
    file.write_text(httpx.get(f"{shared_server.url}/openapi.json").raise_for_status().text)
    return file


@pytest.fixture(scope="module")
def generator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The jar of openapi-generator, which Maven keeps."""
    folder = tmp_path_factory.mktemp("generator")
    goal = ("dependency:copy", f"-Dartifact={GENERATOR}", f"-DoutputDirectory={folder}")
    _run(["mvn", "--batch-mode", "--quiet", *goal])
    (jar,) = folder.glob("*.jar")
    return jar


@pytest.mark.parametrize("library", ["okhttp-gson", "native"])
def test_the_java_client_compiles(
    document: Path, generator: Path, tmp_path: Path, library: str
) -> None:
    client, jars, classes = (tmp_path / name for name in ("client", "jars", "classes"))
    options = ["-g", "java", "--library", library, "-i", document, "-o", client]
    _run(["java", "-jar", generator, "generate", *options])
    goal = ("dependency:copy-dependencies", f"-DoutputDirectory={jars}")
    _run(["mvn", "--batch-mode", "--quiet", "--file", client / "pom.xml", *goal])
    sources = list((client / "src" / "main" / "java").rglob("*.java"))
    _run(["javac", "-proc:none", "-d", classes, "-cp", f"{jars}/*", *sources])
    compiled = {one.stem for one in classes.rglob("*.class")}
    assert {f"{tag}Api" for tag in TAGS} <= compiled
    assert not {"StartCut", "Time", "Number"} & compiled
    (writers,) = client.rglob("WritersApi.java")
    assert " noteTime(" in writers.read_text()


def test_the_typescript_client_is_generated(
    document: Path, generator: Path, tmp_path: Path
) -> None:
    options = ["-g", "typescript-fetch", "-i", document, "-o", tmp_path]
    _run(["java", "-jar", generator, "generate", *options])
    assert {one.stem for one in (tmp_path / "apis").glob("*.ts")} >= {
        f"{tag}Api" for tag in TAGS
    }
    writers = (tmp_path / "apis" / "WritersApi.ts").read_text()
    assert "async noteTime(" in writers


def test_the_python_client_has_every_call_with_json_and_can_be_imported(
    document: Path, tmp_path: Path
) -> None:
    environment, client = tmp_path / "environment", tmp_path / "client"
    _run([sys.executable, "-m", "venv", environment])
    programs = environment / "bin"
    _run([programs / "python", "-m", "pip", "install", "--quiet", PYTHON_GENERATOR])
    options = ["--path", document, "--output-path", client]
    said = _run([programs / "openapi-python-client", "generate", *options])
    assert "Unable to process schema" not in said
    calls = {
        operation["operationId"]
        for operations in json.loads(document.read_text())["paths"].values()
        for operation in operations.values()
    }
    modules = {one.stem for one in client.glob("tidegauge_client/api/*/*.py")}
    assert calls - modules == BEYOND_PYTHON
    imports = (
        "import importlib, pathlib\n"
        "for one in pathlib.Path().rglob('*.py'):\n"
        "    importlib.import_module('.'.join(one.with_suffix('').parts))\n"
    )
    _run(["env", "-C", client, programs / "python", "-c", imports])
