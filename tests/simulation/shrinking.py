"""The fewest faults with which a run still fails."""

from dataclasses import replace

from tests.simulation.run import Verdict, run


def shrink(verdict: Verdict, law: str, *, most_runs: int = 60) -> Verdict:
    """Leave out faults of a run that failed while it breaks a law; return what is left.

    Whole kinds are left out first, then halves of what is left, quarters, and so on.
    """
    best, runs = verdict, 0

    def fails(without: set[str]) -> bool:
        nonlocal best, runs
        runs += 1
        left = frozenset(best.happened) - without
        found = run(replace(verdict.wanted, only=left))
        if law not in found.laws:
            return False
        # Some of those that are left may not happen any more: what follows is another story.
        wanted = replace(found.wanted, only=frozenset(found.happened))
        best = replace(found, wanted=wanted)
        return True

    for kind in sorted({_kind(one) for one in verdict.happened}):
        some = {one for one in best.happened if _kind(one) == kind}
        if some and runs < most_runs:
            fails(some)
    size = len(best.happened)
    while size > 1 and runs < most_runs:
        size = (size + 1) // 2
        at = 0
        while at < len(best.happened) and runs < most_runs:
            if not fails(set(best.happened[at : at + size])):
                at += size
    return best


def _kind(fault: str) -> str:
    return fault.partition("#")[0]
