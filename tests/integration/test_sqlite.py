"""What is particular to SQLite: a file, one process a file, a schema that keeps itself new."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from controller.configuration import LEAST_DATABASE_BYTES
from tests.conftest import NewServer
from tests.integration.sessions import move_into_tables
from tests.server import Api, ServerProcess

pytestmark = pytest.mark.only_on("sqlite", "this is what it is particular in")


def test_a_second_server_on_the_same_file_refuses_and_names_the_process(
    server: ServerProcess,
) -> None:
    second = ServerProcess(server.directory, database_url=server.database_url)
    second.log = server.directory / "second.log"
    said = second.refusal()
    assert f"is served by process {server.process.pid}" in said
    assert str(server.database) in said


def test_it_prints_the_absolute_path_of_its_database(server: ServerProcess) -> None:
    assert f"database {server.database.resolve()}\n" in server.log.read_text()


def test_the_least_size_that_can_be_set_is_enough_to_be_served(new_server: NewServer) -> None:
    with new_server(max_database_bytes=LEAST_DATABASE_BYTES) as server:
        assert server.database.stat().st_size <= LEAST_DATABASE_BYTES


@pytest.mark.parametrize("url", ["mysql://localhost/x", "nonsense", "sqlite://"])
def test_an_address_that_cannot_be_served_is_refused(tmp_path: Path, url: str) -> None:
    server = ServerProcess(tmp_path, database_url=url)
    assert "write sqlite:///PATH" in server.refusal()


def test_a_file_of_another_schema_is_refused(server: ServerProcess) -> None:
    server.stop()
    with sqlite3.connect(server.database) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    assert "has schema version 99" in server.refusal()


def test_a_file_made_before_there_were_revisions_is_brought_up_to_date(
    server: ServerProcess, api: Api
) -> None:
    api.create()
    for writer, time, offset in (("w", 7, 40), ("x", 9, 45), ("x", 20, 50)):
        api.note(writer, time, offset)
    server.stop()
    move_into_tables(server.database_url, stream_key=1)
    with closing(sqlite3.connect(server.database)) as connection:
        _make_as_before_revisions(connection)
    server.start()
    assert api.get("watermark")["watermark"] == 7
    api.note("w", 9, 41)
    assert api.get("marks", after=1)["marks"][0]["cut"] == {"0": 45}
    with closing(sqlite3.connect(server.database)) as connection:
        assert connection.execute("SELECT count(*) FROM alembic_version").fetchone() == (1,)


def _make_as_before_revisions(connection: sqlite3.Connection) -> None:
    connection.executescript(
        """
        CREATE TABLE reports (
            stream_key INTEGER, serial BIGINT, writer TEXT, incarnation BIGINT, time BIGINT,
            position TEXT
        );
        INSERT INTO reports
        SELECT stream_key, one.value ->> 0, one.value ->> 1, 0, one.value ->> 2, one.value -> 3
        FROM report_pages, json_each(reports) AS one;
        DROP TABLE report_pages;
        ALTER TABLE writers DROP COLUMN since_serial;
        DROP TABLE controllers;
        DROP TABLE deleted_streams;
        DROP INDEX ix_streams_holder;
        DROP INDEX ix_reader_groups_holder;
        ALTER TABLE streams DROP COLUMN holder;
        ALTER TABLE streams DROP COLUMN listening_ms;
        ALTER TABLE reader_groups DROP COLUMN holder;
        DROP TABLE journal;
        CREATE INDEX marks_by_lower ON marks (stream_key, lower);
        CREATE INDEX marks_by_upper ON marks (stream_key, upper);
        DROP TABLE alembic_version;
        PRAGMA user_version = 1;
        """
    )


def test_the_directory_has_to_be_there(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path, database_url=f"sqlite:///{tmp_path}/none/tidegauge.db")
    assert f"the directory {tmp_path}/none does not exist" in server.refusal()
