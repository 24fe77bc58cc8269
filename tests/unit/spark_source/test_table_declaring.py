"""One query declares a table's time, by the notes that are kept and by what its checkpoint remembers."""

from os.path import relpath
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import StructField, StructType, TimestampType

from spark_source.columns import name_in
from spark_source.errors import InvalidOptionError, TableTakenError
from spark_source.sink.engines import Iceberg
from spark_source.sink.job import TableOptions
from tests.declared_table import DiesError, Query, Table
from tidegauge.event_time import END_OF_TIME
from tidegauge.tables.asking import note
from tidegauge.tables.declaring import Declarer, Memory
from tidegauge.tables.errors import TwoJobsError
from tidegauge.tables.notes import Note


@pytest.fixture
def table() -> Table:
    made = Table()
    made.append()
    return made


def last(table: Table) -> Note:
    note = table.commits[-1].note
    assert note is not None
    return note


def refused(query: Query, words: str, *times: int, bound: int, take_over: bool = False) -> None:
    """Batch, which the query may not."""
    with pytest.raises(TableTakenError, match=words):
        query.batch(*times, bound=bound, take_over=take_over)


def test_another_query_of_the_job_has_to_take_over_and_its_time_begins_at_the_old_one(
    table: Table,
) -> None:
    one, two = Query(table, "one"), Query(table, "two")
    one.batch(5, bound=100)
    refused(two, r"query 'one' of job 'j' declares its time, and", 50, 120, bound=60)
    two.batch(bound=60, take_over=True)
    took, batch = (commit.note for commit in table.commits[-2:])
    assert took == Note(job="j", query="two", took_over=True)
    assert batch == Note(until=100, job="j", query="two", batch=0, late=1)
    # A supervisor that starts the former one again is told.
    one.stop()
    refused(one, "query 'two' of job 'j' declares its time", 130, bound=200)


def test_a_query_takes_over_once_and_a_final_note_ends_a_table_for_all_others(
    table: Table,
) -> None:
    one, two, three = (Query(table, name) for name in ("one", "two", "three"))
    one.batch(5, bound=100)
    for query in (two, three):
        query.batch(bound=60, take_over=True)
    two.stop()
    # What is left in a job must not take over again at each restart.
    refused(two, "took over once already", bound=120, take_over=True)
    three.batch(bound=END_OF_TIME)
    refused(one, "its last note is final", 150, bound=200)


def test_what_was_on_the_way_as_another_query_took_over_is_found_by_both_and_by_readers(
    table: Table,
) -> None:
    one, two = Query(table, "one"), Query(table, "two")
    one.batch(5, bound=100)
    one.plan(150, bound=200)
    two.plan(120, bound=110, take_over=True)
    with pytest.raises(TwoJobsError, match="queries 'two' and 'one' of job 'j' declare"):
        one.commit()
    assert table.told
    with pytest.raises(TwoJobsError, match="queries 'one' and 'two' of job 'j' declare"):
        two.commit()
    assert table.broken
    # What stands is the greatest that was said, to which the next one is held.
    Query(table, "three").batch(199, bound=50, take_over=True)
    assert not table.told
    assert (last(table).until, last(table).late) == (200, 1)


def test_a_rule_of_one_job_is_found(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Note, "agrees_with", lambda own, other: own.job == other.job)
    one, two = Query(table, "one"), Query(table, "two")
    one.batch(5, bound=100)
    two.plan(120, bound=110)
    one.batch(150, bound=200)
    with pytest.raises(AssertionError, match="no reader is told"):
        two.commit()


def test_no_look_behind_a_commit_is_found(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Declarer, "check_meanwhile", lambda *_: None)
    one, two = Query(table, "one"), Query(table, "two")
    one.batch(5, bound=100)
    one.plan(120, bound=110)
    two.batch(150, bound=200, take_over=True)
    with pytest.raises(AssertionError, match="its query goes on"):
        one.commit()


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_rollback_to_before_what_the_checkpoint_remembers_waits_for_a_take_over(
    table: Table, version: int
) -> None:
    query = Query(table, "one")
    for bound in (10, 20, 30):
        query.batch(bound - 5, bound=bound)
    table.roll_back(version)
    table.append()
    query.stop()
    refused(query, "notes were ended by a restore, a rollback", 35, bound=40)
    query.batch(35, bound=40, take_over=True)
    assert last(table).until == 40


def test_jobs_of_a_stream_wait_for_a_take_over_where_notes_were_ended_and_nowhere_else(
    table: Table,
) -> None:
    table.truncate()  # nobody has ever noted
    one, two, new = (Query(table, name, stream="s") for name in ("one", "two", "new"))
    one.batch(5, bound=10)
    two.batch(15, bound=20)
    table.truncate()
    one.batch(25, bound=30)
    table.restore()
    for query in (one, two, new):
        query.stop()
        refused(query, "notes were ended by a restore, a rollback", 35, bound=40)
    for query, bound in ((two, 40), (one, 50)):
        query.batch(bound - 5, bound=bound, take_over=True)
    new.batch(55, bound=60)
    table.roll_back(table.number - 3)
    one.stop()
    refused(one, "notes were ended by a restore, a rollback", 65, bound=70)


def test_a_job_by_the_name_of_a_stream_is_not_the_stream(table: Table) -> None:
    alone, shared = Query(table, "alone"), Query(table, "shared", stream="j")
    alone.batch(5, bound=10)
    refused(shared, "query 'alone' of job 'j' declares its time", 15, bound=20)
    shared.batch(15, bound=20, take_over=True)
    refused(alone, "query 'shared' of stream 'j' declares its time", 25, bound=30)
    said = note(20, job="j", query="shared", shared=True)["userMetadata"]  # as maintenance does
    table.append(note=Note.from_metadata(said))
    Query(table, "second", stream="j").batch(25, bound=30)


@pytest.mark.parametrize("batches", [1, 2])
def test_a_checkpoint_that_is_older_than_the_table_is_refused(
    table: Table, batches: int
) -> None:
    query = Query(table, "one")
    query.batch(5, bound=10)
    backup = query.backup()
    for _ in range(batches):
        query.batch(15, bound=20)
    query.recover(backup)
    with pytest.raises(
        TableTakenError,
        match=rf"has batch {batches} of this query.* plans batch 1 anew.* a new checkpoint",
    ):
        query.batch(15, 25, bound=30, take_over=True)


def test_a_batch_that_is_repeated_behind_its_commit_is_none_that_is_planned_anew(
    table: Table,
) -> None:
    query = Query(table, "one")
    query.batch(5, bound=10)
    table.dies = True
    with pytest.raises(DiesError):
        query.batch(15, bound=20)
    query.batch(bound=20)
    assert len(table.commits) == 3
    table.dies = True
    with pytest.raises(DiesError):
        query.batch(25, bound=30)
    table.truncate()
    refused(query, r"snapshots have expired.* a new checkpoint", bound=30)


def test_a_query_begins_in_a_truncated_history_without_notes_by_taking_over(
    table: Table,
) -> None:
    Query(table, "one").batch(5, bound=100)
    table.truncate()
    query = Query(table, "two")
    refused(query, "oldest commits are not kept, nor is any note", 120, bound=110)
    table.reached = None  # nobody knows it
    query.batch(120, bound=110, take_over=True)
    query.stop()
    query.batch(130, bound=120)
    assert last(table).until == 120


def test_a_note_by_hand_keeps_the_time_through_maintenance_for_its_query_alone(
    table: Table,
) -> None:
    query = Query(table, "one")
    query.batch(5, bound=100)
    table.truncate()
    table.append(note=Note(until=100, job="j", query="one"))
    with pytest.raises(TableTakenError, match="query 'one' of job 'j' declares its time"):
        Query(table, "two").batch(120, bound=110)
    query.stop()
    query.batch(50, bound=60)
    assert (last(table).until, last(table).late) == (100, 1)


def test_notes_by_hand_are_words_of_the_job_unless_they_say_more_than_a_batch_was_planned_with(
    table: Table,
) -> None:
    query = Query(table, "one")
    query.batch(5, bound=100)
    query.plan(120, bound=110)
    table.append(note=Note(until=100, job="j"))
    query.commit()
    query.plan(125, bound=130)
    table.append(note=Note(until=120, job="j"))
    with pytest.raises(TwoJobsError):
        query.commit()


def test_what_a_checkpoint_remembers_survives_as_text() -> None:
    memory = Memory("id", version=3, time=2**63 - 1, begun=7)
    assert Memory.from_text(memory.to_text()) == memory


def test_a_checkpoint_remembers_each_table_and_knows_it_by_other_spellings() -> None:
    def word(table: str, **how: Any) -> str:
        return TableOptions(table=table, checkpoint="/c", **{"format": "delta", **how}).word

    assert len({word("/lake/a"), word("/lake/b"), word("s3://lake/a")}) == 3
    for spelt in ("s3a://lake/a/", "s3n://lake/a", "s3://lake//a"):
        assert word(spelt) == word("s3://lake/a")
    for path in ("/lake/a", "/lake/x/../a/", "/lake//a", "//lake/a"):
        assert word(path) == word(f"file:{path}") == word(f"file://{path}") == word("/lake/a")
    assert word(relpath("/lake/a")) == word(f"file:{relpath('/lake/a')}") == word("/lake/a")
    catalogs = [{"format": "iceberg", "catalog": {"name": name}} for name in ("one", "two")]
    assert len({word("db.a", **how) for how in catalogs}) == 2


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("event_time", "Event_Time"),
        ("WINDOW.start", "window.Start"),
        ("window.end", None),
        ("window.Start.x", None),
        ("CAST(event_time AS timestamp)", None),
        ("event_time + INTERVAL 1 HOUR", None),
    ],
)
def test_the_note_names_a_column_as_the_rows_do(sql: str, name: str | None) -> None:
    window = StructType([StructField("Start", TimestampType())])
    fields = [StructField("Event_Time", TimestampType()), StructField("window", window)]
    assert name_in(StructType(fields), sql) == name
    both = StructType([*fields, StructField("event_time", TimestampType())])
    assert name_in(both, "event_time") == "event_time"


@pytest.mark.parametrize(
    ("conf", "told"),
    [
        ({}, "none named 'lake'; set spark.sql.catalog.lake, or correct"),
        ({"spark.wap.id": "audit"}, "spark.wap.id.*commits would not go to branch main"),
        (
            {"spark.wap.branch": "audit"},
            "spark.wap.branch.*commits would not go to branch main",
        ),
    ],
)
def test_a_session_that_would_commit_elsewhere_is_refused(
    conf: dict[str, str], told: str
) -> None:
    known = {"spark.sql.catalog.lake": "a class"} if conf else {}
    session: Any = SimpleNamespace(conf=known | conf)
    with pytest.raises(InvalidOptionError, match=told):
        Iceberg("lake.hourly").check(session)
