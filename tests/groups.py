"""Which tests one worker runs one after another, so that a run starts once what is dear to start."""

import re
from pathlib import PurePath

import pytest
from xdist.scheduler import LoadScopeScheduling

_DEAR = {"broker": "java", "spark": "java", "cluster": "postgresql"}
"""Fixtures, and the groups of the tests that need them: the first of them that a test needs."""
_LONGEST = ("java", "acceptance/", "postgresql", "simulation/", "stories/test_page")
_NAMED = re.compile(r"[\[-]on (\w+)[\]-]|\[(postgresql)[\]-]")


class Groups(LoadScopeScheduling):  # type: ignore[misc]
    """Hands groups to workers, which know tests by their ids only.

    ``--dist=loadgroup`` of xdist 3.8 finds no groups with pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def name_group(metafunc: pytest.Metafunc) -> None:
    """Write the group of a test that needs something dear into its id."""
    needed = [group for name, group in _DEAR.items() if name in metafunc.fixturenames]
    if needed:
        metafunc.fixturenames.append("worker_group")
        metafunc.parametrize("worker_group", [f"on {needed[0]}"])


def group_of(nodeid: str) -> str:
    """Find the group of a test: that of Spark and Kafka, that of PostgreSQL, or its file."""
    path, _, name = nodeid.partition("::")
    *_, folder, file = PurePath(path).parts
    named = _NAMED.search(name)
    if named:
        return named[1] or named[2]
    return f"{folder}/{file}"


def rank_of(nodeid: str) -> int:
    """Let workers begin with the longest groups, so that none of them is the last one."""
    group = group_of(nodeid)
    found = (rank for rank, longest in enumerate(_LONGEST) if group.startswith(longest))
    return next(found, len(_LONGEST))
