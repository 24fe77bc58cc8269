"""What `mkdocs.yml` needs beyond plugins: pages where they lie, generated parts, and diagrams.

The pages have the paths that they have in the repository, so that their links lead to the same
files on the site as there.
"""

import re
from importlib.resources import files as resources_of
from pathlib import Path

import fastapi_offline
import mermaidx
import reference_pages
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
SHOWN = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/**/*.*", "deploy/*.*")
"""The pages, and what they link to."""

_API = "docs/reference"
_ASSETS = ("swagger-ui-bundle.js", "swagger-ui.css")
_DIAGRAM = re.compile(r"^```mermaid\n(.*?)^```", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Take the files of the repository that are shown, and the library that draws diagrams."""
    theirs = [one for one in files if one.src_dir != config.docs_dir]
    ours = [
        File.generated(config, str(path.relative_to(ROOT)), abs_src_path=str(path))
        for pattern in SHOWN
        for path in sorted(ROOT.glob(pattern))
        if not path.is_relative_to(ROOT / "docs/theme")
    ]
    # Byte for byte the mermaid.min.js of npm, version 11.16.0.
    library = str(resources_of(mermaidx) / "assets/mermaid.js")
    drawing = File.generated(config, "mermaid.js", abs_src_path=library)
    return Files([*theirs, *ours, drawing, *_pages_of_the_api(config)])


def _pages_of_the_api(config: MkDocsConfig) -> list[File]:
    """Show the OpenAPI document with the library that the service itself shows it with."""
    static = resources_of(fastapi_offline) / "static"
    return [
        File.generated(config, f"{_API}/openapi.html", content=reference_pages.openapi_page()),
        *(
            File.generated(config, f"{_API}/{name}", abs_src_path=str(static / name))
            for name in _ASSETS
        ),
    ]


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Draw every diagram once.

    A mistake in a diagram would show in the reader's browser only.
    """
    for diagram in _DIAGRAM.findall(markdown):
        try:
            mermaidx.render(diagram).svg()
        except RuntimeError as error:
            msg = f"{page.file.src_uri} has a diagram that cannot be drawn: {error}"
            raise PluginError(msg) from error
    return markdown
