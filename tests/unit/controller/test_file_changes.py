"""Files are read again when they changed and stand still, and until that succeeds."""

import os
from pathlib import Path

import pytest

from controller.access.changes import Rereading
from tests.patience import wait_until
from tidegauge.errors import TidegaugeError


class Reader:
    """Reads a file that says nothing wrong unless it says so, or is not there."""

    def __init__(self, path: Path) -> None:
        self.taken: list[str] = []
        self.path = path
        self.written_meanwhile: str | None = None
        """What somebody writes into the file while it is read."""
        self.rereading = Rereading(
            path, read=self._read, take=self.taken.append, kept="the former stays"
        )

    def _read(self) -> str:
        text = self.path.read_text() if self.path.exists() else "bad: it is not there"
        if text.startswith("bad"):
            raise TidegaugeError(text)
        if self.written_meanwhile is not None:
            self.path.write_text(self.written_meanwhile)
        return text

    def look(self, times: int = 1) -> list[str]:
        """Look, and tell what was taken so far."""
        for _ in range(times):
            self.rereading.check()
        return self.taken


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "folder" / "file"
    path.parent.mkdir()
    path.write_text("first")
    return path


def test_a_change_is_taken_once_when_it_was_seen_twice(file: Path) -> None:
    reader = Reader(file)
    assert reader.look(3) == []
    file.write_text("second")
    assert reader.look() == []
    assert reader.look(3) == ["second"]


def test_a_file_that_goes_on_changing_is_left_alone(file: Path) -> None:
    reader = Reader(file)
    for text in ("s", "se", "sec"):
        file.write_text(text)
        assert reader.look() == []
    reader.written_meanwhile = "second"
    assert reader.look() == []
    reader.written_meanwhile = None
    assert reader.look(2) == ["second"]


def _cure(file: Path, former: os.stat_result) -> os.stat_result:
    with file.open("r+") as open_file:
        open_file.write("good")
    os.utime(file, ns=(former.st_atime_ns, former.st_mtime_ns))
    return file.stat()


def test_a_cure_counts_even_if_time_size_and_inode_stay(file: Path) -> None:
    reader = Reader(file)
    file.write_text("bad!")
    former = file.stat()
    reader.look(2)
    wait_until(lambda: _cure(file, former).st_ctime_ns != former.st_ctime_ns)
    cured = file.stat()
    assert (cured.st_mtime_ns, cured.st_size, cured.st_ino) == (
        former.st_mtime_ns,
        former.st_size,
        former.st_ino,
    )
    assert reader.look(2) == ["good"]


def test_a_cure_that_does_not_show_in_the_file_counts_too(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reader = Reader(file)
    file.write_text("bad")
    reader.look(4)
    monkeypatch.setattr(Path, "read_text", lambda _: "good")
    assert reader.look() == ["good"]
    assert reader.look() == ["good"]
    assert [one.getMessage() for one in caplog.records] == ["bad; the former stays"]


def test_a_problem_is_told_once_until_it_is_another_or_comes_again(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reader = Reader(file)
    for text in ("bad", "bad again", "good", "bad again"):
        file.write_text(text)
        reader.look(4)
    assert [one.getMessage() for one in caplog.records] == [
        "bad; the former stays",
        "bad again; the former stays",
        "bad again; the former stays",
    ]


def test_a_file_that_is_there_again_unchanged_ends_its_problem_in_the_log(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    reader, folder = Reader(file), file.parent
    folder.rename(folder.with_name("elsewhere"))
    reader.look(4)
    folder.with_name("elsewhere").rename(folder)
    assert reader.look(4) == []
    assert caplog.messages == [
        "bad: it is not there; the former stays",
        f"{file} can be read again, unchanged",
    ]
