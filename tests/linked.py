"""Virtual environments with what extras bring, linked from the packages of this one."""

import sysconfig
import tomllib
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, PackagePath, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
CONFIGURATION = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = CONFIGURATION["project"]
_CONSOLE = """#!{python}
import sys
from tidegauge_cli import main
if __name__ == "__main__":
    sys.exit(main())
"""


def make_environment(directory: Path, extras: frozenset[str]) -> Path:
    """Make a virtual environment with what extras bring, and return the folder of its programs."""
    venv.create(directory, symlinks=True)
    programs = directory / "bin"
    packages = next(directory.glob("lib/python*/site-packages"))
    console = programs / "tidegauge"
    console.write_text(_CONSOLE.format(python=programs / "python"))
    console.chmod(0o755)
    (packages / "tidegauge.pth").write_text(f"{ROOT}\n")
    for name in _closure(PROJECT["name"], extras):
        _link(distribution(name), packages, programs)
    return programs


def _closure(name: str, extras: frozenset[str]) -> set[str]:
    """Find all distributions that one with these extras brings."""
    found: set[tuple[str, frozenset[str]]] = set()
    wanted = {(name, extras)}
    while wanted:
        found |= wanted
        wanted = {needed for one in wanted for needed in _needed(*one)} - found
    return {one for one, _ in found}


def _needed(name: str, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    for line in _requirements(name, extras):
        needed = Requirement(line)
        marker = needed.marker
        if marker is None or any(marker.evaluate({"extra": one}) for one in ["", *extras]):
            yield needed.name, frozenset(needed.extras)


def _requirements(name: str, extras: frozenset[str]) -> list[str]:
    if name != PROJECT["name"]:
        return distribution(name).requires or []
    lines = [line for extra in extras for line in PROJECT["optional-dependencies"][extra]]
    return [*PROJECT["dependencies"], *lines]


def _link(installed: Distribution, packages: Path, programs: Path) -> None:
    scripts = Path(sysconfig.get_path("scripts"))
    for file in installed.files or ():
        place = _top(file)
        source = Path(str(installed.locate_file(place)))
        folder = programs if source.resolve().parent == scripts.resolve() else packages
        link = folder / place.name
        if place.name != "__pycache__" and source.suffix != ".pth" and not link.exists():
            link.symlink_to(source.resolve())


def _top(file: PackagePath) -> PackagePath:
    """Shorten a path to what lies in the folder of packages, or of programs."""
    return file if ".." in file.parts else PackagePath(file.parts[0])
