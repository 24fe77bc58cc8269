"""What streams that share a changelog store is kept and deleted, each on its own."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

import httpx
import pytest

from tests.patience import wait_until
from tests.server import Api, ServerProcess

pytestmark = pytest.mark.about_sql

NOW = 1_700_000_000_000
STREAMS = 30
KILLS = 2
MORE_THAN_A_STREAM_KEEPS = 80
"""Reports; the changelog of a stream of one writer is compacted at 64 at the latest."""


def _note(api: Api, marks_wanted: int) -> None:
    for n in range(1, marks_wanted + 1):
        api.note("w", NOW + n * 10_000, n)


def test_a_stream_of_a_deleted_name_has_nothing_of_the_changelog(
    server: ServerProcess, api: Api
) -> None:
    api.create()
    _note(api, 5)
    api.client.delete(api.path).raise_for_status()
    api.create()
    assert api.get("marks")["marks"] == []
    assert api.get("writers")["writers"] == []
    api.note("x", NOW + 1, 1)
    server.kill()
    server.start()
    assert [one["lower"] for one in api.get("marks")["marks"]] == [NOW + 1]
    assert [one["writer"] for one in api.get("writers")["writers"]] == ["x"]


def test_a_service_goes_on_after_its_only_large_stream_is_deleted(api: Api) -> None:
    api.create()
    name = "w" * 200
    for start in range(0, 6_000, 2_000):
        reports = [
            {"stream": api.name, "writer": f"{name}{n}", "time": NOW, "position": {"0": 0}}
            for n in range(start, start + 2_000)
        ]
        answer = api.client.post("/v1/note-times", json={"reports": reports})
        assert {one["status"] for one in answer.raise_for_status().json()["results"]} == {200}
    api.client.delete(api.path).raise_for_status()
    api.create()
    api.note("x", NOW + 1, 1)
    assert [one["writer"] for one in api.get("writers")["writers"]] == ["x"]


class Fleet:
    """Many streams with a writer each, of which some report at every, second or third round."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client
        self.names = {f"many/s{number}": 1 + number % 3 for number in range(STREAMS)}
        """At every how many-th round it reports."""
        self.rounds = count(1)
        self.answered = 0
        """The last round that was stored for certain."""
        for name in self.names:
            wanted = {"log": "external", "segments": 1, "mark_interval_ms": 0}
            client.put(f"/v1/streams/{name}", json=wanted).raise_for_status()

    def report(self) -> None:
        number = next(self.rounds)
        report = {"writer": "w", "time": NOW + number * 1_000, "position": {"0": number}}
        due = [name for name, every in self.names.items() if number % every == 0]
        reports = [{"stream": name, **report} for name in due]
        answer = self.client.post("/v1/note-times", json={"reports": reports})
        results = answer.raise_for_status().json()["results"]
        assert {one["status"] for one in results} == {200}
        self.answered = number

    def report_until_lost(self) -> None:
        with suppress(httpx.TransportError):
            while True:
                self.report()

    def check(self) -> None:
        """Everything is there that was answered, and at most one round more."""
        for name, every in self.names.items():
            stored = self._marks(name)
            assert [one["revision"] for one in stored] == list(range(1, len(stored) + 1))
            for one in stored:
                assert one["cut"] == {"0": (one["lower"] - NOW) // 1_000}
            newest = stored[-1]
            possible = (self.answered, self.answered + 1)
            assert newest["cut"]["0"] in {number - number % every for number in possible}
            (writer,) = self._get(name, "writers")["writers"]
            assert writer["time"] == newest["lower"]
            assert writer["position"] == newest["cut"]

    def _marks(self, name: str) -> list[dict[str, Any]]:
        stored: list[dict[str, Any]] = self._get(name, "marks?limit=1000")["marks"]
        return stored

    def _get(self, name: str, call: str) -> Any:
        return self.client.get(f"/v1/streams/{name}/{call}").raise_for_status().json()


@contextmanager
def _reporting_until_killed(fleet: Fleet, server: ServerProcess) -> Iterator[None]:
    """Report all the while, and beyond: the server is killed under load."""
    thread = threading.Thread(target=fleet.report_until_lost)
    thread.start()
    try:
        yield
    finally:
        server.kill()
        thread.join()


def test_what_was_answered_is_there_after_a_kill_whether_it_was_compacted_or_not(
    server: ServerProcess,
) -> None:
    with httpx.Client(base_url=server.url, timeout=20) as client:
        fleet = Fleet(client)
        for turn in range(1, KILLS + 1):
            with _reporting_until_killed(fleet, server):
                wanted = turn * MORE_THAN_A_STREAM_KEEPS
                wait_until(lambda wanted=wanted: fleet.answered > wanted)  # type: ignore[misc]
            server.start()
            fleet.check()
