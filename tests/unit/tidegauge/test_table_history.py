"""Until when a table is complete, by the notes of its commits."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.tables.errors import TooOldError, TwoJobsError
from tidegauge.tables.history import (
    Commit,
    check_jobs,
    commit_in_effect,
    covered,
    first_complete,
    has_ended,
    has_taken_over,
)
from tidegauge.tables.notes import Note

JOB = "hourly"


def history(*notes: int | str | None, first: int = 0) -> list[Commit]:
    """Make commits, newest first: a time, None without a note, "end" of notes, "empty"."""
    made = [
        Commit(
            version,
            note=Note(until=told, job=JOB) if isinstance(told, int) else None,
            ends_notes=told == "end",
            has_rows=told != "empty",
            is_first=version == 0,
        )
        for version, told in enumerate(notes, start=first)
    ]
    return made[::-1]


def time_of(commits: list[Commit]) -> int | None:
    found = commit_in_effect(commits)
    return None if found is None else found.time


def test_notes_have_ended_where_there_were_some_and_none_has_followed() -> None:
    assert has_ended(history(10, "end", None))
    assert has_ended(history("end", None), had_notes=True)
    for told in [("end",), ("end", None), (10, None), (10, "end", 5), ()]:
        assert not has_ended(history(*told))


@given(steps=st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.integers(0, 9))))
def test_what_a_job_commits_late_takes_back_nothing_that_others_have_said(
    steps: list[tuple[int, bool, int]],
) -> None:
    """Jobs of one stream ask for its mark, and commit it when others have committed more."""
    commits, asked, mark = list[Commit](), dict[int, int](), 0
    for job, commits_now, more in steps:
        if job not in asked:
            asked[job] = mark = max(mark + more, time_of(commits) or 0)
        elif commits_now:
            note = Note(until=asked.pop(job), job="stream", query=str(job))
            commits.insert(0, Commit(len(commits), note=note, is_first=not commits))
    said = [one.time or 0 for one in reversed(commits)]
    greatest = list(accumulate(said, max))
    assert [time_of(commits[-number:]) for number in range(1, len(said) + 1)] == greatest
    for time in range(0, mark + 2, 3):
        found = first_complete("t", time, commits)
        complete = [version for version, at in enumerate(greatest) if at >= time]
        assert (found and found.version) == (complete[0] if complete else None)


def test_a_version_below_the_oldest_kept_note_is_too_old() -> None:
    commits = history(10, 20, 30, first=7)
    with pytest.raises(TooOldError, match="no longer kept; version 7 is the oldest"):
        first_complete("t", 10, commits)


def test_commits_without_rows_right_behind_a_version_are_covered_with_it() -> None:
    commits = history(10, 20, "empty", "empty", 50, "empty")
    assert [one.version for one in covered(commits, 1)] == [3, 2, 1, 0]
    assert [one.version for one in covered(commits, 4)] == [5, 4, 3, 2, 1, 0]
    assert [one.version for one in covered(commits, 0)] == [0]


def by(*said: str, shared: bool = False) -> list[Commit]:
    """Make commits, newest first, of a job, perhaps with its query; "!" says that it took over."""
    made = []
    for version, one in enumerate(said):
        job, _, query = one.removesuffix("!").partition("/")
        note = Note(
            until=version, job=job, query=query or None, took_over=one[-1] == "!", shared=shared
        )
        made.append(Commit(version, note=note))
    return made[::-1]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("a b a b", "'b' and 'a' declare its time by turns"),
        ("a/a b/b! a/a! b/b a/a", "by turns"),
        (
            "a/a b/b! b/b a/a",
            "by turns",
        ),  # its commit was on the way as the other one took over
        ("j/a j/b j/a", "queries 'a' and 'b' of job 'j' declare its time by turns"),
        *(("j/a j/b j j/a", "by turns"), ("j/a j/b j/a j", "by turns")),
    ],
)
def test_who_declares_by_turns_is_told(said: str, told: str) -> None:
    with pytest.raises(TwoJobsError, match=told):
        check_jobs("t", by(*said.split()))


def test_who_took_over_and_queries_of_a_stream_are_not_told() -> None:
    # A note by hand names no query, and is no turn of its own.
    for said in ("a a b b", "a/a b/b! a/a!", "j/a j/a j/b j/b", "j/a j j/a j"):
        check_jobs("t", by(*said.split()))
    check_jobs("t", by("j/a", "j/b", "j/a", shared=True))


def test_who_took_over_did_so_once() -> None:
    back = by("a/a", "b/b!", "a/a!")
    assert has_taken_over("b", back)
    assert not has_taken_over("a", back[1:])
    assert not has_taken_over("b", [*history("end", first=3), *back])


def test_a_query_behind_a_take_over_was_on_the_way_though_what_it_said_before_is_not_kept() -> (
    None
):
    took = Commit(7, note=Note(job="j", query="b", took_over=True))
    behind = Commit(8, note=Note(until=5, job="j", query="a"))
    with pytest.raises(TwoJobsError):
        check_jobs("t", [behind, took])
