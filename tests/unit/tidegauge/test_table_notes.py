"""The note of a commit, as Delta and Iceberg carry it."""

import json

import pytest

from tidegauge.event_time import END_OF_TIME
from tidegauge.tables import note
from tidegauge.tables.delta import read_commit
from tidegauge.tables.notes import Note

NOTE = Note(until=1_700_000_000_000, job="hourly", query="q", batch=7, late=2)


@pytest.mark.parametrize("more", [{}, {"took_over": True}, {"shared": True}])
def test_a_note_survives_both_formats_and_writes_no_more_than_it_says(
    more: dict[str, bool],
) -> None:
    said = NOTE.model_copy(update=more)
    assert Note.from_metadata(said.to_metadata()) == said
    assert Note.from_summary({**said.to_summary(), "added-records": "3"}) == said
    assert {name for name in ("took_over", "shared") if name in said.to_metadata()} == {*more}


def test_what_a_user_has_in_the_metadata_is_kept() -> None:
    metadata = NOTE.to_metadata('{"ticket": 5}')
    assert json.loads(metadata)["ticket"] == 5
    assert Note.from_metadata(metadata) == NOTE
    with pytest.raises(ValueError, match=r"'plain text' is no JSON object.*make it one"):
        NOTE.to_metadata("plain text")


@pytest.mark.parametrize("metadata", [None, "", "plain text", "[1]", '{"ticket": 5}'])
def test_metadata_of_others_has_no_note(metadata: str | None) -> None:
    assert Note.from_metadata(metadata) is None


def test_a_note_that_is_none_is_told() -> None:
    with pytest.raises(ValueError, match="is not readable: until"):
        Note.from_metadata('{"tidegauge": {"until": "soon", "job": "hourly"}}')
    with pytest.raises(ValueError, match="is not readable: job"):
        Note.from_summary({"tidegauge.until": "5"})


@pytest.mark.parametrize(
    "until", ["true", "1.5", "10000000000000000000", "-9223372036854775809"]
)
def test_a_time_that_is_none_or_beyond_64_bits_makes_no_note(until: str) -> None:
    with pytest.raises(ValueError, match="is not readable: until"):
        Note.from_metadata(f'{{"tidegauge": {{"until": {until}, "job": "hourly"}}}}')
    with pytest.raises(ValueError, match="is not readable: until"):
        Note.from_summary({"tidegauge.until": until, "tidegauge.job": "hourly"})


def test_writers_without_spark_make_their_metadata() -> None:
    made = note(5, job="nightly", final=True)
    found = Note.from_metadata(made["userMetadata"])
    assert found == Note(until=5, job="nightly", final=True)
    assert note(5, job="nightly", format="iceberg")["tidegauge.until"] == "5"
    assert Note.from_metadata(note(END_OF_TIME, job="n")["userMetadata"]) == Note(
        job="n", final=True
    )
    with pytest.raises(ValueError, match="format='hudi' is neither"):
        note(5, job="nightly", format="hudi")  # type: ignore[arg-type]


def added(**more: object) -> dict[str, object]:
    return {"add": {"path": "p", "dataChange": True, "stats": '{"numRecords": 3}', **more}}


@pytest.mark.parametrize(
    ("action", "has_rows"),
    [
        (added(), True),
        (added(stats='{"numRecords": 0}'), False),
        (added(stats=None), True),
        (added(dataChange=False), False),
        ({"remove": {"path": "p", "dataChange": True}}, False),
    ],
)
def test_a_delta_commit_brings_rows_unless_it_says_that_it_does_not(
    action: dict[str, object], *, has_rows: bool
) -> None:
    assert read_commit(4, [{"commitInfo": {}}, action]).has_rows is has_rows


@pytest.mark.parametrize(
    ("operation", "parameters", "ends"),
    [
        ("WRITE", {"mode": "Append"}, False),
        ("WRITE", {"mode": "Overwrite"}, True),
        ("WRITE", {"mode": "Overwrite", "predicate": '["day = 3"]'}, False),
        ("RESTORE", {"version": 3}, True),
        ("CREATE OR REPLACE TABLE AS SELECT", {}, True),
        ("CLONE", {}, True),
        ("STREAMING UPDATE", {"outputMode": "Complete", "epochId": "3"}, True),
        ("OPTIMIZE", {}, False),
        ("DELETE", {"predicate": "[]"}, False),
    ],
)
def test_what_takes_versions_back_ends_the_notes(
    operation: str, parameters: dict[str, object], *, ends: bool
) -> None:
    told = {"operation": operation, "operationParameters": parameters}
    assert read_commit(4, [{"commitInfo": told}]).ends_notes is ends


def test_a_compaction_by_hand_ends_no_notes() -> None:
    told = {"operation": "WRITE", "operationParameters": {"mode": "Overwrite"}}
    removed: dict[str, object] = {"remove": {"path": "p", "dataChange": False}}
    moved: list[dict[str, object]] = [{"commitInfo": told}, added(dataChange=False), removed]
    assert not read_commit(4, moved).ends_notes
    assert read_commit(4, [*moved, added()]).ends_notes
