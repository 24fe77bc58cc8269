"""The clients and the verbs show their token to the service, and to nobody else."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner, Result

from controller.configuration import ServeSettings
from reader_client import AsyncReader, ExclusiveReader, Reader, ReaderGroup, StreamClient
from tests.service.in_process import Service, served_in_process
from tests.tokens import Tokens
from tidegauge.client.addresses import InvalidTokenError
from tidegauge.errors import ForbiddenError, UnauthenticatedError
from tidegauge_cli.verbs import app
from writer_client import AsyncTimeReporter, AsyncWriter, TimeReporter, Writer

URL = Service.url
NOW = 1_700_000_000_000
RIDES = "rides/taxis"
ORDERS = "rides/orders"
GROUP = "rides/billing"


Guarded = dict[str, str]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A service that clients reach, and a token for each role in the scope of its streams."""
    directory = tmp_path_factory.mktemp("guarded")
    tokens = Tokens(directory)
    texts = {role: tokens.text(role, "rides", role) for role in ("write", "read", "operate")}
    url = f"sqlite:///{directory}/one.db"
    header = {"authorization": f"Bearer {texts['operate']}"}
    with (
        served_in_process(ServeSettings(database_url=url, tokens=tokens.file)) as service,
        httpx.Client(transport=service, base_url=URL, headers=header) as client,
        service.reached_by_clients(),
    ):
        for stream, log in ((RIDES, "embedded"), (ORDERS, "external")):
            settings = {"segments": 1, "log": log, "mark_interval_ms": 0}
            client.put(f"/v1/streams/{stream}", json=settings).raise_for_status()
        yield texts


def test_each_client_needs_no_more_than_its_role(guarded: Guarded) -> None:
    with Writer(URL, RIDES, "gateway", token=guarded["write"]) as writer:
        writer.write("ride", key="k", event_time=NOW)
        writer.note_time(NOW)
    with TimeReporter(URL, ORDERS, "api", token=guarded["write"]) as reporter:
        reporter.note_time(NOW, {0: 7})
    with StreamClient(URL, RIDES, token=guarded["read"]) as client:
        assert client.tail().tail == {0: 1}
        assert [one.batch.num_rows for one in client.read(0, 0, 1)] == [1]
    with ReaderGroup(URL, GROUP, token=guarded["read"]) as group:
        group.create([RIDES])
    with Reader(URL, GROUP, "worker", token=guarded["read"]) as reader:
        assert [event.value for event in reader.read_next()] == [b"ride"]
    alone = ExclusiveReader(URL, GROUP, "alone", token=guarded["read"])
    alone.take_over({RIDES: {0: 0}})
    alone.close()


def test_a_token_that_is_not_enough_is_told_by_a_typed_error(guarded: Guarded) -> None:
    weak = Writer(URL, RIDES, "gateway", token=guarded["read"])
    with closing(weak), pytest.raises(ForbiddenError) as refused:
        weak.open()
    assert (refused.value.token_name, refused.value.role) == ("read", "write")
    wrong = TimeReporter(URL, ORDERS, "api", token="tg_wrong")
    with closing(wrong), pytest.raises(UnauthenticatedError) as unknown:
        wrong.open()
    assert unknown.value.reason == "unknown"
    with (
        ReaderGroup(URL, GROUP) as group,
        pytest.raises(UnauthenticatedError, match="no token was sent"),
    ):
        group.describe()


@pytest.mark.parametrize("text", ["tg_x\n", " tg_x", "tg_x y", "tg_x\r\nhost: y", "tg_ä", ""])
def test_a_text_that_cannot_be_a_token_is_refused_at_once_and_not_shown(text: str) -> None:
    with pytest.raises(InvalidTokenError) as refused:
        StreamClient("http://127.0.0.1:1", RIDES, token=text)
    assert "strip what you read from a file" in str(refused.value)
    assert "tg_" not in f"{refused.value!r} {refused.value}"


def test_a_token_shows_in_no_repr(guarded: Guarded) -> None:
    token = guarded["write"]
    clients: list[Any] = [
        kind(URL, RIDES, "name", token=token)
        for kind in (AsyncWriter, AsyncTimeReporter, AsyncReader)
    ]
    with ReaderGroup(URL, GROUP, token=token) as group:
        clients.append(group)
        assert token not in f"{clients!r} {[str(one) for one in clients]}"


@pytest.mark.parametrize(
    ("words", "role"),
    [
        (("streams",), "read"),
        (("writers", RIDES), "operate"),
        (("marks", RIDES), "read"),
        (("groups",), "read"),
        (("why", RIDES), "write"),
        (("note-time", RIDES, "cron", str(NOW)), "write"),
        (("expire", RIDES, "cron"), "operate"),
        (("seal", ORDERS, "--position", "0:99", "--yes"), "operate"),
    ],
)
def test_every_verb_shows_the_token_of_its_environment_or_its_option(
    guarded: Guarded, words: tuple[str, ...], role: str
) -> None:
    token = guarded[role]
    for told in (token, None):
        result = _type(*words, *(() if told else ("--token", token)), told=told)
        assert result.exit_code == 0, result.output
        assert token not in result.output
    refused = _type(*words, told=None)
    assert refused.exit_code == 1
    assert "send the header `Authorization: Bearer TOKEN`" in refused.output


def _type(*words: str, told: str | None) -> Result:
    environment = {"TIDEGAUGE_URL": URL, "COLUMNS": "120", "TIDEGAUGE_TOKEN": told}
    return CliRunner().invoke(app, words, env=environment)
