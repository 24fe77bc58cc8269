"""Repeats runs: ``python -m tests.simulation SEED [--controllers N] [--long] [--trace]``."""

import argparse
import logging
import sys
import warnings
from contextlib import nullcontext

from tests.simulation import clocks

clocks.install()  # before anything is imported that binds them

from tests.simulation.cluster import describe_routes_once  # noqa: E402
from tests.simulation.defects import DEFECTS  # noqa: E402
from tests.simulation.run import Verdict, Wanted, run, say_nothing  # noqa: E402
from tests.simulation.scenario import SUBJECTS  # noqa: E402
from tests.simulation.shrinking import shrink  # noqa: E402


def main() -> int:
    """Run what is asked for; 1 if something failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument(
        "--count", type=_positive, default=1, help="so many seeds from this one on"
    )
    parser.add_argument("--controllers", type=_positive)
    parser.add_argument(
        "--about",
        choices=[one.__name__ for one in SUBJECTS],
        help="a subject of stories; the seed chooses one if left out",
    )
    parser.add_argument("--long", action="store_true", help="several subjects, and more time")
    parser.add_argument("--only", help="the faults that may happen, such as kill#0,late#3")
    parser.add_argument(
        "--shrink", action="store_true", help="find the fewest faults with which a run fails"
    )
    parser.add_argument(
        "--defect",
        choices=DEFECTS,
        metavar="NAME",
        help="plant one of defects.py, until the law that it is about is broken",
    )
    parser.add_argument("--trace", action="store_true", help="tell all that happens")
    asked = parser.parse_args()
    try:
        return 1 if _run_all(asked) else 0
    except KeyboardInterrupt:
        return 130
    finally:
        # What is left of killed controllers ends with this process.
        sys.unraisablehook = say_nothing
        logging.disable()
        warnings.simplefilter("ignore")


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        msg = f"{text} is not above zero"
        raise argparse.ArgumentTypeError(msg)
    return number


def _run_all(asked: argparse.Namespace) -> int:
    """Run one seed after another; return how many failed."""
    only = None if asked.only is None else frozenset(filter(None, asked.only.split(",")))
    failed = 0
    describe_routes_once()
    defect = DEFECTS.get(asked.defect)
    controllers = asked.controllers or (defect.controllers if defect else 1)
    about = asked.about or (defect.about if defect else None)
    with defect.plant() if defect else nullcontext():
        for seed in range(asked.seed, asked.seed + asked.count):
            wanted = Wanted(seed, controllers, asked.long, only, about, asked.defect)
            verdict = run(wanted, tell=print if asked.trace else None)
            failed += bool(verdict.faults)
            tell(verdict)
            law = defect.law if defect else next(iter(verdict.laws), "")
            if law not in verdict.laws:
                continue
            if asked.shrink:
                tell(shrink(verdict, law))
            if defect:
                break
    return failed


def tell(verdict: Verdict) -> None:
    """Print what came of a run."""
    outcome = "FAILED" if verdict.faults else "well"
    print(
        f"{outcome} {verdict.digest} {verdict.wanted.line}: {verdict.requests} requests, "
        f"{verdict.transactions} transactions, {len(verdict.happened)} faults, "
        f"{verdict.virtual_s:.1f} s in {verdict.real_s:.2f} s",
        flush=True,
    )
    for fault in verdict.faults[:50]:
        print(f"    {fault}")
    if unseen := (verdict.wanted.only or frozenset()).difference(verdict.happened):
        print(f"    did not happen: {', '.join(sorted(unseen))}")


if __name__ == "__main__":
    sys.exit(main())
