"""What is particular to SQLite: a file, one process a file, a schema that keeps itself new."""

import random
from pathlib import Path

import pyarrow as pa
import pytest

from controller.configuration import LEAST_DATABASE_BYTES
from tests.conftest import NewServer
from tests.server import ServerProcess
from tests.service.log_api import LogApi

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


def test_the_directory_has_to_be_there(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path, database_url=f"sqlite:///{tmp_path}/none/tidegauge.db")
    assert f"the directory {tmp_path}/none does not exist" in server.refusal()


def test_a_full_database_refuses_appends_and_keeps_what_it_has(
    new_server: NewServer,
) -> None:
    with new_server(max_database_bytes=2_000_000) as server, LogApi(server.url) as log:
        log.create()
        log.register()
        value = random.Random(1).randbytes(50_000)
        sequence = 1
        answer = log.append([("a", 0, value)], sequence)
        while "next_offset" in answer:
            sequence += 1
            answer = log.append([("a", sequence, value)], sequence)
        assert (answer["status"], answer["code"]) == (503, "unavailable")
        assert log.tail() == {"0": sequence - 1}
        assert log.append([("a", sequence, value)], sequence)["code"] == "unavailable"
        assert log.append([("a", sequence - 1, value)], sequence - 1)["duplicate"] is True
        assert [time for _, time, _ in log.events()][1:] == list(range(2, sequence))
        assert isinstance(log.read(start=sequence - 2).table, pa.Table)
