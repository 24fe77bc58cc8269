"""The documentation as a site: built without a warning, complete, and read without internet."""

import importlib
import json
import os
import re
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from controller.access.needs import NEEDS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
DRAWN = "mermaid.js"
_FENCE = re.compile(r"^```mermaid$", re.MULTILINE)
_LOADED = re.compile(r"<(?:script|link|img)\b[^>]*?\b(?:src|href)=\"?((?:https?:)?//[^\" >]+)")
_IMPORTED = re.compile(r"(?:url\(|@import\s+)[\"']?((?:https?:)?//[^\"')]+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return folder


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    texts = {path: path.read_text() for path in site.rglob("*.*ml")}
    styles = {path: path.read_text() for path in site.rglob("*.css")}
    assert len(texts) > len(PAGES)
    assert [
        (path, found) for path, text in texts.items() for found in _LOADED.findall(text)
    ] == []
    foreign = [(path, it) for path, text in styles.items() for it in _IMPORTED.findall(text)]
    assert foreign == []


def test_pages_with_diagrams_and_no_others_load_what_draws_them(site: Path) -> None:
    pages = [path.read_text() for path in site.rglob("*.html")]
    drawn = [page for page in pages if 'class="mermaid"' in page]
    written = sum(len(_FENCE.findall(path.read_text())) for path in PAGES)
    assert sum(page.count('class="mermaid"') for page in drawn) == written > 0
    assert [page for page in pages if (DRAWN in page) != (page in drawn)] == []
    # Otherwise the theme would look for it on the internet.
    assert [page for page in drawn if page.index(DRAWN) > page.index("/bundle.")] == []
    assert 'globalThis["mermaid"]' in (site / DRAWN).read_text()


@pytest.mark.parametrize("package", ["reader_client", "spark_source", "writer_client"])
def test_every_public_name_is_in_the_reference(package: str, site: Path) -> None:
    header_and_names = (site / "objects.inv").read_bytes().split(b"\n", 4)
    lines = zlib.decompress(header_and_names[4]).decode().splitlines()
    described = {line.partition(" ")[0] for line in lines}
    module = importlib.import_module(package)
    homes = {name: getattr(module, name).__module__ for name in module.__all__}
    assert [one for one, home in homes.items() if f"{home}.{one}" not in described] == []


def test_the_browsable_api_holds_the_document_that_the_service_has(site: Path) -> None:
    reference = site / "docs" / "reference"
    page = (reference / "openapi.html").read_text()
    (text,) = re.findall(r"^const spec = (.*)$", page, re.MULTILINE)
    assert json.loads(text)["paths"].keys() == {call.split(" ", 1)[1] for call in NEEDS}
    assert "SwaggerUIBundle" in (reference / "swagger-ui-bundle.js").read_text()
