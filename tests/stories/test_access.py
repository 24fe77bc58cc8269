"""Tokens on a real server: their file changes, operators are in its log, and no token is."""

import asyncio
import logging
import re
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from tests.conftest import NewServer
from tests.patience import wait_until
from tests.server import OFTEN_LOOKING
from tests.tokens import Tokens
from tidegauge.errors import ForbiddenError
from writer_client import AsyncWriter, Writer

pytestmark = pytest.mark.only_on("sqlite", "callers are known before any database")

PATH = "/v1/streams/flights/departures"


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path)


def test_tokens_come_and_go_while_the_service_runs(
    new_server: NewServer, tokens: Tokens
) -> None:
    with (
        new_server(tokens=tokens.file, launcher=OFTEN_LOOKING) as guarded,
        httpx.Client(base_url=guarded.url, headers={"host": "gauge.example"}) as client,
    ):
        token = tokens.header("late-comer", "flights", "read")
        wait_until(lambda: client.get("/v1/streams", headers=token).status_code == 200)
        tokens.file.write_text("[[token")
        wait_until(lambda: "the tokens read before stay in force" in guarded.log.read_text())
        assert client.get("/v1/streams", headers=token).status_code == 200
        tokens.file.write_text("")
        wait_until(lambda: client.get("/v1/streams", headers=token).status_code == 401)


def test_what_operators_do_or_others_wanted_to_is_logged_with_their_name_at_any_level(
    new_server: NewServer, tokens: Tokens
) -> None:
    alice = tokens.header("alice", "flights", "operate", "write")
    bob = tokens.header("bob", "flights", "read", "write")
    with (
        new_server(tokens=tokens.file, log_level="error") as taciturn,
        httpx.Client(base_url=taciturn.url, headers=alice) as client,
    ):
        client.put(PATH, json={"segments": 1}).raise_for_status()
        client.post(f"{PATH}/writers/w/register").raise_for_status()
        assert client.delete(PATH, headers=bob).status_code == 403
        assert client.post(f"{PATH}/writers/w/expire", headers=bob).status_code == 403
        assert client.get("/metrics", headers=bob).status_code == 403
        client.post(f"{PATH}/writers/w/expire").raise_for_status()
        client.post(f"{PATH}/seal").raise_for_status()
        client.delete(PATH).raise_for_status()
        taciturn.stop()
    log = taciturn.log.read_text()
    assert "stream created" not in log
    assert re.findall(r"operator call \S+ caller=alice (method=.* status=\d+)", log) == [
        f"method=PUT path={PATH} status=201",
        f"method=POST path={PATH}/writers/w/expire status=200",
        f"method=POST path={PATH}/seal status=200",
        f"method=DELETE path={PATH} status=204",
    ]
    of = "stream=flights/departures"
    assert re.findall(r"operator call refused \S+ caller=bob (method=.*)", log) == [
        f"method=DELETE path={PATH} status=403 {of}",
        f"method=POST path={PATH}/writers/w/expire status=403 {of} writer=w",
    ]
    assert log.count("caller=") == 6


def test_a_token_shows_in_no_log_error_or_metric_of_the_service_or_a_client(
    new_server: NewServer, tokens: Tokens, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    good = tokens.header("good", "*", "read", "write", "operate")
    late = tokens.header("late", "*", "read", lasts=timedelta(seconds=-1))
    elsewhere = tokens.header("elsewhere", "rides", "write")
    wrong = {"authorization": "Bearer tg_never_made_by_anybody"}
    shown = [header["authorization"].removeprefix("Bearer ") for header in (good, late, wrong)]
    shown.append(elsewhere["authorization"].removeprefix("Bearer "))
    said = []
    with (
        new_server(tokens=tokens.file, log_level="debug") as guarded,
        httpx.Client(base_url=guarded.url) as client,
    ):
        for header in (good, late, wrong):
            put = client.put(PATH, json={"segments": 1}, headers=header)
            note = client.post(f"{PATH}/writers/w/note-time", content=b"{", headers=header)
            lost = client.get("/nowhere", headers=header)
            said += [put.text, note.text, lost.text, str(put.headers)]
        said.append(client.get("/metrics", headers=good).text)
        with Writer(guarded.url, "flights/departures", "gateway", token=shown[0]) as writer:
            writer.write("ride", key="k")
        said.append(asyncio.run(_refused(guarded.url, shown[-1])))
        guarded.stop()
    assert "httpcore" in {record.name.partition(".")[0] for record in caplog.records}
    said += [guarded.log.read_text(), tokens.file.read_text(), caplog.text]
    assert not [text for text in said for token in shown if token in text]


async def _refused(url: str, token: str) -> str:
    writer = AsyncWriter(url, "flights/departures", "gateway", token=token)
    with pytest.raises(ForbiddenError) as error:
        await writer.open()
    await writer.close()
    return str(error.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"host": "0.0.0.0"}, "without authentication would let anybody"),
        ({"tokens": "none.toml"}, "No such file or directory"),
    ],
)
def test_a_service_that_would_be_open_to_anybody_does_not_even_make_its_database(
    new_server: NewServer, options: dict[str, str], said: str
) -> None:
    server = new_server(**options)
    assert said in server.refusal()
    assert not server.database.exists()
