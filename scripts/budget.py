"""Print what a branch adds and removes: lines and names of each package, and lines of the rest.

A name is a class, a function, a method, or an assigned name of a module or a class.

    python scripts/budget.py main    # since the branch left main; without a revision, of the last commit
"""

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple


class Part(NamedTuple):
    """What there is of a part of the repo."""

    lines: Counter[str]
    names: Counter[str]


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.check_output(command, text=True, errors="replace")  # noqa: S603 (git)


def _names(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        if isinstance(node, ast.Module | ast.ClassDef):
            for one in node.body:
                targets = one.targets if isinstance(one, ast.Assign) else []
                targets = [one.target] if isinstance(one, ast.AnnAssign) else targets
                yield from (target.id for target in targets if isinstance(target, ast.Name))


def _count(revision: str, files: list[str]) -> Part:
    """Count what the files have at a revision, by the folder that they are in."""
    part = Part(Counter(), Counter())
    there = set(_git("ls-tree", "-r", "--name-only", revision).splitlines())
    for file in there.intersection(files):
        text, folder = _git("show", f"{revision}:{file}"), file.partition("/")[0]
        part.lines[folder] += text.count("\n")
        if file.endswith(".py"):
            part.names[folder] += sum(1 for _ in _names(text))
    return part


def main(base: str) -> None:
    """Print a table of the folders that changed since a revision."""
    begin = _git("merge-base", base, "HEAD").strip()
    files = _git("diff", "--name-only", "--no-renames", begin, "HEAD").splitlines()
    before, after = _count(begin, files), _count("HEAD", files)
    print(f"{'since ' + begin[:8]:20}{'lines':>8}{'names':>8}")
    for folder in sorted(before.lines | after.lines):
        lines = after.lines[folder] - before.lines[folder]
        names = after.names[folder] - before.names[folder]
        print(f"{folder:20}{lines:>+8}{names:>+8}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "HEAD~1")
