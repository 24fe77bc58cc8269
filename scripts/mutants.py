"""Measure what the tests notice: change the code in one place, and see whether a test fails.

    python scripts/mutants.py TREE RESULTS --seed 1 --count 150
    python scripts/mutants.py OTHER_TREE ITS_RESULTS --same-as RESULTS

The quick tests that run a line judge it, then files of tests with real processes that are listed here by
hand. It works on a copy of the tree, and continues RESULTS that exist.
"""

import ast
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import accumulate, chain
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import NamedTuple
from xml.etree import ElementTree as ET

from coverage import CoverageData

QUICK = ("unit", "property", "conformance", "simulation")
REAL = {
    "controller/": "stories/test_[acrsw]*.py stories/test_fail*.py faults/test_[cd]*.py",
    "tidegauge/(aggregation/|groups|lattice|windows)": "stories/test_[rtw]*.py faults/test_c*.py",
    "writer_client/(observing/|_deliveries|_notes|_outbox)": "stories/test_[orw]*.py faults/test_o*.py",
    "reader_client/": "stories/test_[rw]*.py",
    "tidegauge/tables/": "faults/spark/test_follow.py",
    "spark_source/(checkpoints|operators|sink|source)/": "stories/spark/test_*.py faults/spark/test_[fkrsw]*.py",
}
_PAIRS = [(ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot)]
_PAIRS += [(ast.In, ast.NotIn), (ast.And, ast.Or), (ast.Add, ast.Sub)]
_SWAPPED = dict(_PAIRS) | {after: before for before, after in _PAIRS}
_LISTS = {ast.List, ast.ListComp, ast.Tuple, ast.JoinedStr}
_LOGGED = {"debug", "info", "warning", "error", "exception"}
_QUICK_S = 60


class Mutant(NamedTuple):
    """A change: where it is, its text, and its number among equal ones of the function."""

    file: str
    function: str
    before: str
    after: str
    number: int = 0


def find(tree: Path) -> dict[Mutant, ast.expr | ast.stmt]:
    """Find all mutants of a tree, always in the same order, with the nodes that they replace."""
    nodes: dict[Mutant, ast.expr | ast.stmt] = {}
    files = (path.relative_to(tree).as_posix() for path in sorted(tree.glob("*/**/*.py")))
    for file in filter(re.compile("|".join(REAL)).match, files):
        for function, node, new in _walk(ast.parse((tree / file).read_text())):
            mutant = Mutant(file, function, ast.unparse(node), ast.unparse(new))
            while mutant in nodes:
                mutant = mutant._replace(number=mutant.number + 1)
            nodes[mutant] = node
    return nodes


def _walk(node: ast.AST, scope: str = "") -> Iterator[tuple[str, ast.expr | ast.stmt, ast.AST]]:
    """Yield each change with its function; any test notices an attribute that no object has."""
    for child in ast.iter_child_nodes(node):
        called = getattr(getattr(child, "value", child), "func", None)
        if isinstance(child, ast.arguments | ast.Assert | ast.JoinedStr):
            continue
        if isinstance(called, ast.Attribute) and called.attr in _LOGGED:
            continue
        if not (isinstance(child, ast.Assign) and scope.endswith("__init__")):
            yield from ((scope, *change) for change in _changes(child))
        is_scope = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        yield from _walk(child, f"{scope}.{child.name}".strip(".") if is_scope else scope)


def _changes(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, ast.AST]]:  # noqa: C901 (a list)
    """Yield what may be replaced at a node, and by what."""
    match node:
        case ast.Compare(left, ops, comparators):
            for index, op in enumerate(ops):
                swapped = [*ops[:index], _SWAPPED[type(op)](), *ops[index + 1 :]]
                yield node, ast.Compare(left, swapped, comparators)
        case ast.BoolOp(op, values):
            yield node, ast.BoolOp(_SWAPPED[type(op)](), values)
        case ast.UnaryOp(ast.Not(), operand):
            yield node, operand
        case ast.If(test) | ast.While(test) | ast.IfExp(test):
            if isinstance(test, ast.Name | ast.Attribute | ast.Call):
                yield test, ast.UnaryOp(ast.Not(), test)
        case ast.BinOp(left, ast.Add() | ast.Sub() as op, right):
            if not _LISTS & {type(left), type(right)}:
                yield node, ast.BinOp(left, _SWAPPED[type(op)](), right)
        case ast.Expr(ast.Call() | ast.Await(ast.Call())) | ast.AugAssign():
            yield node, ast.Pass()
        case ast.Assign([ast.Attribute() | ast.Subscript()]):
            yield node, ast.Pass()


def change(source: str, mutant: Mutant, node: ast.expr | ast.stmt) -> str:
    """Return a source in which a mutant replaces a node."""
    lines = source.encode().splitlines(keepends=True)
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    text = mutant.after if isinstance(node, ast.stmt) else f"({mutant.after})"
    begin, end = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
    return b"".join([*lines[:first], begin, text.encode(), end, *lines[last + 1 :]]).decode()


def run(copy: Path, *tests: str, limit_s: int = 3600, **variables: str) -> list[str]:
    """Return the tests that fail; ``limit_s`` bounds the time of the processor."""
    (copy / "arguments").write_text("\n".join(tests))
    command = [sys.executable, "-m", "pytest", "-q", "-rfE", "--tb=no", "@arguments"]
    environment = os.environ | {"PYTHONPATH": str(copy)} | variables
    with TemporaryFile("w+") as output:
        process = subprocess.Popen(  # noqa: S603 (of this repository)
            command,
            cwd=copy,
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        resource.prlimit(process.pid, resource.RLIMIT_CPU, (limit_s, limit_s))
        status = process.wait()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        output.seek(0)
        failed = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output.read(), re.MULTILINE)
    return failed if failed or not status else [f"pytest ended with {status}"]


def cover(copy: Path, path: Path) -> None:
    """Run the quick tests once, and record which lines each of them runs, and for how long."""
    (copy / ".coveragerc").write_text("[run]\nrelative_files = true\n")
    packages = {f"--cov={area.partition('/')[0].strip('()')}" for area in REAL}
    options = [
        "--numprocesses=2",
        "--cov-context=test",
        "--cov-report=",
        f"--junit-xml={path}.xml",
    ]
    folders = [f"tests/{folder}" for folder in QUICK]
    failed = run(copy, *packages, *options, *folders, COVERAGE_FILE=str(path))
    print(f"tests that fail without a mutant, and so judge none: {failed}")


def judges(path: Path, mutant: Mutant, node: ast.expr | ast.stmt) -> list[str]:
    """Choose quick tests that run a node: first those that run most of its file in a second."""
    seconds = {
        f"{case.attrib['classname'].replace('.', '/')}.py::{case.attrib['name']}": case.attrib[
            "time"
        ]
        for case in ET.parse(f"{path}.xml").iter("testcase")  # noqa: S314 (our own)
        if case.find("failure") is case.find("error") is None
    }
    data = CoverageData(str(path))
    data.read()
    by_line = data.contexts_by_lineno(mutant.file)
    tests = {line: {each.partition("|")[0] for each in by_line[line]} for line in by_line}
    run_lines = Counter(chain.from_iterable(tests.values()))
    lines = range(node.lineno, (node.end_lineno or 0) + 1)
    chosen = {test for line in lines for test in tests.get(line, ()) if test in seconds}
    order = sorted(chosen, key=lambda test: (float(seconds[test]) / run_lines[test], test))
    spent = accumulate(float(seconds[test]) for test in order)
    return [test for test, until in zip(order, spent, strict=True) if until < _QUICK_S]


def judge(copy: Path, path: Path, mutant: Mutant, node: ast.expr | ast.stmt) -> list[str]:
    """Return what fails under a mutant; real processes have to fail twice."""
    patterns = next(REAL[area] for area in REAL if re.match(area, mutant.file)).split()
    real = [
        str(file.relative_to(copy)) for each in patterns for file in copy.glob(f"tests/{each}")
    ]
    source = (copy / mutant.file).read_text()
    (copy / mutant.file).write_text(change(source, mutant, node))
    try:
        quick = judges(path, mutant, node)
        failed = run(copy, "-x", *quick, limit_s=4 * _QUICK_S) if quick else []
        if failed or not real:  # without names, pytest would run all tests
            return failed
        return run(copy, "-x", *real) and run(copy, "-x", *real)
    finally:
        (copy / mutant.file).write_text(source)


def main() -> None:
    """Judge the mutants that have no result yet, and print how many are killed."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tree", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--same-as", type=Path, help="judge the survivors of these results")
    given = parser.parse_args()
    nodes, path = find(given.tree), given.results.with_suffix(".coverage").resolve()
    mutants = random.Random(given.seed).sample([*nodes], given.count)
    if given.same_as:
        mutants = [mutant for mutant, failed in read(given.same_as).items() if not failed]
    left_out = shutil.ignore_patterns(".git", ".venv*", ".*_cache", "__pycache__")
    with TemporaryDirectory(prefix="mutants-") as directory:
        copy = shutil.copytree(given.tree, Path(directory, "tree"), ignore=left_out)
        if not path.exists():
            cover(copy, path)
        for mutant in (each for each in mutants if each not in read(given.results)):
            failed = judge(copy, path, mutant, nodes[mutant]) if mutant in nodes else ["gone"]
            with given.results.open("a") as results:
                results.write(json.dumps([mutant, failed]) + "\n")
            print(" → ".join(mutant[:4]), failed[:1] or "SURVIVES", flush=True)
    killed = [*read(given.results).values()]
    print(f"{sum(map(bool, killed))} of {len(killed)} killed")


def read(results: Path) -> dict[Mutant, list[str]]:
    """Read results, which may not exist yet."""
    lines = results.read_text().splitlines() if results.exists() else []
    return {Mutant(*mutant): failed for mutant, failed in map(json.loads, lines)}


if __name__ == "__main__":
    main()
