"""Run files of tests on a copy of a tree, and trace which statements each of them runs.

    python scripts/traces.py TREE TRACE [--folders unit property]

It traces all processes that a test starts. It continues a TRACE that exists.
"""

import ast
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

AREAS = re.compile(
    r"(controller|reader_client|spark_source/(checkpoints|operators|sink|source)|tidegauge/tables"
    r"|tidegauge/aggregation|writer_client/observing)/|tidegauge/(groups|lattice|windows)"
    r"|writer_client/_(deliveries|notes|outbox)"
)
FOLDERS = ("unit", "property", "conformance", "simulation", "stories", "faults", "spark")
_NOT_RUN = (ast.Module, ast.ClassDef)
_TEST_S = 180
_FILE_S = 200
_CLOCK_S = 1200
# A process may be killed at any time, so it appends each statement to the file at once.
_PROBE = """
_seen = set()
def hit(statement):
    if statement not in _seen:
        _seen.add(statement)
        with open({!r}, "a") as hits:
            hits.write(statement + "\\n")
"""


def files_of(tree: Path) -> list[str]:
    """List the files that are measured."""
    packages = (path.parent for path in tree.glob("*/__init__.py"))
    paths = (path.relative_to(tree) for package in packages for path in package.rglob("*.py"))
    return sorted(path.as_posix() for path in paths if AREAS.match(path.as_posix()))


@contextmanager
def copied(tree: Path) -> Iterator[Path]:
    """Make a copy of a tree that uses the same environments."""
    left_out = shutil.ignore_patterns(
        ".git", ".venv*", ".*_cache", "__pycache__", ".hypothesis"
    )
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        copy = Path(directory, "tree")
        shutil.copytree(tree, copy, symlinks=True, ignore=left_out)
        for environment in tree.glob(".venv*"):
            (copy / environment.name).symlink_to(environment.resolve())
        yield copy


class Run(NamedTuple):
    """A file of tests: its cost, its tests that fail anyway, and the statements that it runs."""

    file: str
    environment: str
    processor_s: float
    failed: list[str]
    statements: Collection[str]


def run_tests(copy: Path, environment: str, *tests: str, limit_s: int) -> list[str]:
    """Return the tests that fail; ``limit_s`` bounds the time of the processor, however busy it is."""
    python = copy / environment / "bin" / "python"
    command = [python, "-m", "pytest", "-q", "-rfE", "--tb=no", f"--timeout={_TEST_S}", *tests]
    variables = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": ""}
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(  # noqa: S603 (of this repository)
            command,
            cwd=copy,
            env=variables,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        resource.prlimit(process.pid, resource.RLIMIT_CPU, (limit_s, limit_s))
        try:
            process.wait(_CLOCK_S)
        except subprocess.TimeoutExpired:
            pass  # it is killed
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        status = process.wait()
        output.seek(0)
        failed = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output.read(), re.MULTILINE)
    # 5: there is no test that is not deselected.
    return failed if failed or status in {0, 5} else [f"pytest ended with {status}"]


def _probe(copy: Path, hits: Path) -> None:
    """Have each statement of a function report that it runs."""
    (copy / "_probe.py").write_text(_PROBE.format(str(hits)))
    for file in files_of(copy):
        module = ast.parse((copy / file).read_text())
        inner = [node for node in ast.walk(module) if not isinstance(node, _NOT_RUN)]
        for node in inner:
            for name in ("body", "orelse", "finalbody"):
                if isinstance(block := getattr(node, name, None), list):
                    block[:] = [
                        probed for each in block for probed in (*_hit(file, each), each)
                    ]
        first = next((i for i, each in enumerate(module.body) if not _is_head(each)), 0)
        module.body[first:first] = ast.parse("from _probe import hit as _hit").body
        (copy / file).write_text(ast.unparse(module))


def _hit(file: str, statement: ast.stmt) -> list[ast.stmt]:
    call = "" if _is_docstring(statement) else f"_hit({f'{file}:{statement.lineno}'!r})"
    return ast.parse(call).body


def _is_head(statement: ast.stmt) -> bool:
    is_future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
    return is_future or _is_docstring(statement)


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def trace(tree: Path, path: Path, folders: list[str]) -> None:
    """Run each file of tests alone, and record it."""
    known = {run.file for run in read_runs(path)}
    with copied(tree) as copy:
        hits = copy / "hits"
        _probe(copy, hits)
        for folder in folders:
            for found in sorted(copy.glob(f"tests/{folder}/test_*.py")):
                file = found.relative_to(copy).as_posix()
                if file not in known:
                    append(path, _run(copy, file, hits)._asdict())


def _run(copy: Path, file: str, hits: Path) -> Run:
    environment = Path(sys.prefix).name
    hits.write_text("")
    before = _processor_s()
    failed = run_tests(copy, environment, file, limit_s=_FILE_S)
    seconds = round(_processor_s() - before, 1)
    statements = sorted({*hits.read_text().split()})
    # A busy machine may fail a test once.
    failed = [test for test in failed if run_tests(copy, environment, test, limit_s=_FILE_S)]
    return Run(file, environment, seconds, failed, statements)


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def read_runs(path: Path) -> list[Run]:
    """Read a trace."""
    runs = (Run(**record) for record in read(path))
    return [run._replace(statements=frozenset(run.statements)) for run in runs]


def read(path: Path) -> list[Any]:
    """Read a file of JSON lines, which may not exist yet."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def append(path: Path, record: dict[str, Any]) -> None:
    """Add a line to a file of JSON lines."""
    with path.open("a") as lines:
        lines.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tree", type=Path)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--folders", nargs="+", default=FOLDERS)
    given = parser.parse_args()
    trace(given.tree.resolve(), given.trace, given.folders)
