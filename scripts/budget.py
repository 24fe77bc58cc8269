"""Print what a branch adds and removes: lines and names of each package, and lines of the rest.

A name is a class, a function, a method, or an assigned name of a module or a class.

    python scripts/budget.py main    # since the branch left main; without a revision, of the last commit
"""

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from subprocess import PIPE


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    ran = subprocess.run(command, stdout=PIPE, text=True, errors="replace", check=False)  # noqa: S603 (git)
    if ran.returncode:
        sys.exit(ran.returncode)  # git has said why
    return ran.stdout


def _names(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        if isinstance(node, ast.Module | ast.ClassDef):
            for one in node.body:
                targets = one.targets if isinstance(one, ast.Assign) else []
                targets = [one.target] if isinstance(one, ast.AnnAssign) else targets
                yield from (target.id for target in targets if isinstance(target, ast.Name))


def _count_names(revision: str, files: list[str]) -> Counter[str]:
    """Count the names that modules have at a revision, by the folder that they are in."""
    there = set(_git("ls-tree", "-r", "--name-only", revision).splitlines())
    names = Counter[str]()
    for file in there.intersection(files):
        if file.endswith(".py"):
            names[_folder(file)] += sum(1 for _ in _names(_git("show", f"{revision}:{file}")))
    return names


def _folder(file: str) -> str:
    return file.partition("/")[0]


def main(base: str) -> None:
    """Print a table of the folders that changed since a revision."""
    begin = _git("merge-base", base, "HEAD").strip()
    changed = _git("diff", "--numstat", "--no-renames", begin, "HEAD").splitlines()
    rows = [row.split("\t") for row in changed if not row.startswith("-")]  # no binary files
    files, lines = [file for _, _, file in rows], Counter[str]()
    for added, removed, file in rows:
        lines[_folder(file)] += int(added) - int(removed)
    before, after = _count_names(begin, files), _count_names("HEAD", files)
    print(f"{'since ' + begin[:8]:20}{'lines':>8}{'names':>8}")
    for folder in sorted(lines):
        print(f"{folder:20}{lines[folder]:>+8}{after[folder] - before[folder]:>+8}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "HEAD~1")
