"""Measure what the tests notice: change the code in one place, and see whether a test fails.

    python scripts/traces.py TREE TRACE
    python scripts/mutants.py TREE TRACE RESULTS --seed 1 --count 150
    python scripts/mutants.py OTHER_TREE ITS_TRACE ITS_RESULTS --same-as RESULTS

A mutant is named by its file, function and text, so that another tree can be judged by the same ones.
The tests that run its statement judge it, on a copy of the tree. RESULTS that exist are continued.
"""

import ast
import random
import time
from argparse import ArgumentParser
from bisect import bisect_right
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any, NamedTuple

from traces import Run, append, copied, files_of, read, read_runs, run_tests

_PAIRS = [(ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot)]
_PAIRS += [(ast.In, ast.NotIn), (ast.And, ast.Or), (ast.Add, ast.Sub)]
_SWAPPED = dict(_PAIRS) | {after: before for before, after in _PAIRS}
_LISTS = {ast.List, ast.ListComp, ast.Tuple, ast.JoinedStr}
_LOGGED = {"debug", "info", "warning", "error", "exception"}
# A stage is cheaper than the next one, and its tests run in one process.
_STAGES = {"unit": 0, "property": 0, "conformance": 0, "simulation": 1, "spark": 3, "lake": 4}
_REAL_PROCESSES = 2
_STAGE_S = 60
_GONE = "gone"
_NO_ATTRIBUTE = ("assignment", "__init__")


class Mutant(NamedTuple):
    """A change: where it is, its text, and its number among equal ones of the function."""

    file: str
    function: str
    operator: str
    before: str
    after: str
    number: int = 0

    def __str__(self) -> str:
        return f"{self.file} {self.function}: {self.before} → {self.after}"


class Place(NamedTuple):
    """Where a tree has a mutant: the statement as a trace names it, and the node to replace."""

    statement: str
    node: ast.expr | ast.stmt


def find(tree: Path) -> dict[Mutant, Place]:
    """Find all mutants of a tree, always in the same order."""
    places: dict[Mutant, Place] = {}
    for file in files_of(tree):
        for function, line, operator, node, new in _walk(ast.parse((tree / file).read_text())):
            mutant = Mutant(file, function, operator, ast.unparse(node), ast.unparse(new))
            while mutant in places:
                mutant = mutant._replace(number=mutant.number + 1)
            places[mutant] = Place(f"{file}:{line}", node)
    return places


def _walk(node: ast.AST, scope: str = "", line: int = 0) -> Iterator[tuple[Any, ...]]:
    """Yield each change with its function, and with the line of its statement."""
    for child in ast.iter_child_nodes(node):
        called = getattr(getattr(child, "value", child), "func", None)
        if isinstance(child, ast.arguments | ast.Assert | ast.JoinedStr):
            continue
        if isinstance(called, ast.Attribute) and called.attr in _LOGGED:
            continue
        at = child.lineno if isinstance(child, ast.stmt) else line
        yield from ((scope, at, *change) for change in _changes(child))
        is_scope = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        inner = f"{scope}.{child.name}".removeprefix(".") if is_scope else scope
        yield from _walk(child, inner, at)


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST, ast.AST]]:  # noqa: C901 (a list)
    """Yield what may change at a node: the operator, what it replaces, and by what."""
    match node:
        case ast.Compare(left, ops, comparators):
            for index, op in enumerate(ops):
                swapped = [*ops[:index], _SWAPPED[type(op)](), *ops[index + 1 :]]
                yield "comparison", node, ast.Compare(left, swapped, comparators)
        case ast.BoolOp(op, values):
            yield "and/or", node, ast.BoolOp(_SWAPPED[type(op)](), values)
        case ast.UnaryOp(ast.Not(), operand):
            yield "not", node, operand
        case ast.If(test) | ast.While(test) | ast.IfExp(test):
            if isinstance(test, ast.Name | ast.Attribute | ast.Call):
                yield "not", test, ast.UnaryOp(ast.Not(), test)
        case ast.BinOp(left, ast.Add() | ast.Sub() as op, right):
            if not _LISTS & {type(left), type(right)}:
                yield "+/-", node, ast.BinOp(left, _SWAPPED[type(op)](), right)
        case ast.Expr(ast.Call() | ast.Await(ast.Call())):
            yield "call", node, ast.Pass()
        case ast.AugAssign() | ast.Assign([ast.Attribute() | ast.Subscript()]):
            yield "assignment", node, ast.Pass()


def change(source: str, mutant: Mutant, node: ast.expr | ast.stmt) -> str:
    """Return a source in which a mutant replaces a node."""
    lines = source.encode().splitlines(keepends=True)
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    text = mutant.after if isinstance(node, ast.stmt) else f"({mutant.after})"
    begin, end = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
    return b"".join([*lines[:first], begin, text.encode(), end, *lines[last + 1 :]]).decode()


def draw(places: dict[Mutant, Place], run: set[str], seed: int, count: int) -> list[Mutant]:
    """Draw mutants of statements that are run."""
    order = random.Random(seed).sample([*places], len(places))
    drawn = [mutant for mutant in order if places[mutant].statement in run]
    # Any test notices an attribute that no object has.
    drawn = [each for each in drawn if (each.operator, each.function[-8:]) != _NO_ATTRIBUTE]
    return drawn[:count]


def judge(
    tree: Path, places: dict[Mutant, Place], runs: list[Run], mutants: list[Mutant]
) -> Iterator[dict[str, Any]]:
    """Yield the result of each mutant; a mutant of another tree may have other names here."""
    with copied(tree) as copy:
        for mutant in mutants:
            texts = {str(each): each for each in places if each[1:3] == mutant[1:3]}
            close = [] if mutant in places else get_close_matches(str(mutant), texts, 1, 0.8)
            here = texts[close[0]] if close else mutant
            started = time.monotonic()
            killer = _killer(copy, runs, here, places[here]) if here in places else _GONE
            seconds = round(time.monotonic() - started)
            yield {"mutant": mutant, "as": here, "killer": killer, "seconds": seconds}


def _killer(copy: Path, runs: list[Run], mutant: Mutant, place: Place) -> str | None:
    """Return the first test that fails under a mutant."""
    path = copy / mutant.file
    source = path.read_text()
    path.write_text(change(source, mutant, place.node))
    try:
        failures = (_failure(copy, stage) for stage in _stages(runs, place.statement))
        return next(filter(None, failures), None)
    finally:
        path.write_text(source)


def _stages(runs: list[Run], statement: str) -> Iterator[list[Run]]:
    """Yield the runs that judge a statement, first those that run most of its file in a second."""
    file = statement.partition(":")[0] + ":"
    judges = [run for run in runs if statement in run.statements]
    judges.sort(key=lambda run: run.processor_s / sum(file in each for each in run.statements))
    for _, group in groupby(sorted(judges, key=_stage), _stage):
        stage = list(group)
        spent = list(accumulate(run.processor_s for run in stage))
        yield stage[: max(1, bisect_right(spent, _STAGE_S))]


def _stage(run: Run) -> int:
    return _STAGES.get(Path(run.file).parent.name, _REAL_PROCESSES)


def _failure(copy: Path, stage: list[Run]) -> str | None:
    """Return the first test that fails; real processes have to fail twice."""
    environment, files = stage[0].environment, [run.file for run in stage]
    skipped = [f"--deselect={test}" for run in stage for test in run.failed]
    limit_s = 60 + 3 * round(sum(run.processor_s for run in stage))
    while failed := run_tests(copy, environment, "-x", *skipped, *files, limit_s=limit_s):
        test = failed[0]
        is_sure = _stage(stage[0]) < _REAL_PROCESSES or "::" not in test
        if is_sure or run_tests(copy, environment, test, limit_s=limit_s):
            return test
        skipped.append(f"--deselect={test}")
    return None


def report(results: list[dict[str, Any]], others: list[dict[str, Any]]) -> None:
    """Print how many are killed, and the others with what killed them in the other tree."""
    left = [result for result in results if result["killer"] in {None, _GONE}]
    print(f"{len(results) - len(left)} of {len(results)} killed")
    killers = {Mutant(*result["mutant"]): result["killer"] for result in others}
    for result in left:
        mutant = Mutant(*result["mutant"])
        there = f"; there {killers[mutant]}" if mutant in killers else ""
        print(f"{result['killer'] or 'survives'}: {mutant}{there}")


def main() -> None:
    """Judge the mutants that have no result yet, and report all."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    for name in ("tree", "trace", "results"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--same-as", type=Path, help="judge the mutants of these results")
    given = parser.parse_args()
    runs, places = read_runs(given.trace), find(given.tree)
    run = {statement for each in runs for statement in each.statements}
    others = read(given.same_as) if given.same_as else []
    mutants = [Mutant(*other["mutant"]) for other in others]
    mutants = mutants or draw(places, run, given.seed, given.count)
    judged = {Mutant(*result["mutant"]) for result in read(given.results)}
    mutants = [mutant for mutant in mutants if mutant not in judged]
    for result in judge(given.tree.resolve(), places, runs, mutants):
        append(given.results, result)
    report(read(given.results), others)


if __name__ == "__main__":
    main()
