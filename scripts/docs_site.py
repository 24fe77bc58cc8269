"""What `mkdocs.yml` needs beyond plugins: the pages where they lie, and diagrams that work.

The pages have the paths that they have in the repository, so that their links lead to the same
files on the site as there.
"""

import re
from importlib.resources import files as resources_of
from pathlib import Path

import mermaidx
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
SHOWN = ("README.md", "CHANGELOG.md", "docs/**/*.*", "deploy/*.*")
"""The pages, and what they link to."""

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
    return Files([*theirs, *ours, File.generated(config, "mermaid.js", abs_src_path=library)])


def on_page_markdown(markdown: str, page: Page, **_: object) -> None:
    """Draw every diagram once: a mistake in one would show in the reader's browser only."""
    for diagram in _DIAGRAM.findall(markdown):
        try:
            mermaidx.render(diagram).svg()
        except RuntimeError as error:
            msg = f"{page.file.src_uri} has a diagram that cannot be drawn: {error}"
            raise PluginError(msg) from error
