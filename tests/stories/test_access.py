"""Every call is tried with tokens that must not be enough, and with the least that is."""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from controller.access.callers import Role
from controller.configuration import ServeSettings
from controller.http.examples import EXAMPLES, Example
from controller.serving.server import ExposedError, check_exposure
from tests.conftest import NewServer
from tests.patience import wait_until
from tests.server import OFTEN_LOOKING, Api, ServerProcess
from tests.service.story import StoryClient
from tests.tokens import Tokens

pytestmark = pytest.mark.only_on("sqlite", "callers are known before any database")

SCOPE = "flights"
EXPIRED = timedelta(seconds=-1)
_ONE = "/v1/streams/{scope}/{stream}"
_WRITER = f"{_ONE}/writers/{{writer}}"
_GROUP = "/v1/reader-groups/{scope}/{group}"
_TRANSACTION = f"{_ONE}/transactions/{{transaction}}"
_READER = f"{_GROUP}/readers/{{reader}}"

OPEN = {"GET /", "GET /healthz", "GET /readyz"}
"""What needs no token."""
FILTERED = {"GET /v1/streams", "GET /v1/reader-groups", "POST /v1/note-times"}
"""What any token may ask; what it gets depends on its roles."""
EVERYWHERE = {"GET /metrics"}
"""What needs the role `read` or `observe` in all scopes."""
NEEDED = {
    f"PUT {_ONE}": "operate",
    f"GET {_ONE}": "read, observe, write or operate",
    f"PATCH {_ONE}": "operate",
    f"DELETE {_ONE}": "operate",
    f"POST {_ONE}/scale": "operate",
    f"POST {_ONE}/truncate": "operate",
    f"POST {_ONE}/seal": "operate",
    f"GET {_ONE}/watermark": "read, observe, write or operate",
    f"GET {_ONE}/tail": "read or observe",
    f"GET {_ONE}/marks": "read or observe",
    f"GET {_ONE}/marks/at": "read or observe",
    f"POST {_ONE}/events": "write",
    f"POST {_ONE}/segments/{{segment}}/events": "write",
    f"GET {_ONE}/segments/{{segment}}/events": "read",
    f"GET {_ONE}/transactions": "read, observe, write or operate",
    f"POST {_ONE}/transactions": "write",
    f"GET {_TRANSACTION}": "read, observe, write or operate",
    f"POST {_TRANSACTION}/segments/{{segment}}/events": "write",
    f"POST {_TRANSACTION}/events": "write",
    f"POST {_TRANSACTION}/ping": "write",
    f"POST {_TRANSACTION}/commit": "write",
    f"POST {_TRANSACTION}/abort": "write",
    f"POST {_ONE}/batches/{{number}}": "write",
    f"GET {_ONE}/writers": "read, observe, write or operate",
    f"GET {_WRITER}": "read, observe, write or operate",
    f"POST {_WRITER}/register": "write",
    f"POST {_WRITER}/note-time": "write",
    f"POST {_WRITER}/leave": "write",
    f"POST {_WRITER}/expire": "operate",
    f"PUT {_GROUP}": "read",
    f"GET {_GROUP}": "read or observe",
    f"DELETE {_GROUP}": "operate",
    f"GET {_GROUP}/state": "read or observe",
    f"PUT {_GROUP}/state": "read",
    f"GET {_GROUP}/time-window": "read or observe",
    f"POST {_GROUP}/progress": "read",
    f"POST {_READER}": "read",
    f"POST {_READER}/position": "read",
    f"POST {_READER}/heartbeat": "read",
    f"DELETE {_READER}": "read",
}


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path)


@pytest.fixture
def guarded(new_server: NewServer, tokens: Tokens) -> ServerProcess:
    """A server with tokens; the test starts it when it has made them."""
    return new_server(tokens=tokens.file, log_level="debug")


class Visitor:
    """Sends requests with one header after another."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self._stream_id = ""

    def play(self, example: Example, header: dict[str, str]) -> httpx.Response:
        query = {**example.query}
        if "stream_id" in query:
            query["stream_id"] = self._stream_id
        content: Any = {"json": example.body} if isinstance(example.body, dict) else {}
        if isinstance(example.body, (str, bytes)):
            content = {"content": example.body}
        headers = {**example.headers, **header}
        answer = self._client.request(
            example.method, example.url, params=query, headers=headers, **content
        )
        if answer.is_success and isinstance(example.answer, dict):
            self._stream_id = answer.json().get("stream_id", self._stream_id)
        return answer


def _problem(answer: httpx.Response) -> tuple[int, str, str]:
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.status_code, answer.json()["code"], answer.headers["www-authenticate"]


MISSING = (401, "unauthenticated", 'Bearer realm="tidegauge"')
INVALID = (401, "unauthenticated", 'Bearer realm="tidegauge", error="invalid_token"')
FORBIDDEN = (403, "forbidden", 'Bearer realm="tidegauge", error="insufficient_scope"')


def test_every_call_refuses_what_is_not_enough_and_takes_the_least_that_is(
    guarded: ServerProcess, tokens: Tokens
) -> None:
    """Plays the story of the examples; what was refused before each step changed nothing."""
    roles = [str(role) for role in Role]
    only = {role: tokens.header(f"only-{role}", SCOPE, role) for role in roles}
    lacks = {
        role: tokens.header(f"lacks-{role}", SCOPE, *(one for one in roles if one != role))
        for role in roles
    }
    lacks["read or observe"] = tokens.header("lacks-both", SCOPE, "write", "operate")
    only["read or observe"] = only["observe"]
    elsewhere = tokens.header("elsewhere", "rides", *roles)
    monitor = tokens.header("monitor", "*", "observe")
    refused = [
        ({}, MISSING),
        ({"authorization": "Basic YTpi"}, MISSING),
        ({"authorization": "Bearer tg_wrong"}, INVALID),
        (tokens.header("late", "*", *roles, lasts=EXPIRED), INVALID),
    ]
    with guarded, StoryClient(base_url=guarded.url, timeout=20) as client:
        visitor = Visitor(client)
        for example in EXAMPLES:
            call = example.call
            needed = NEEDED.get(call, "")
            enough = only.get(needed, only["read"])
            too_weak = [elsewhere, *([lacks[needed]] if needed in lacks else [])]
            if call in EVERYWHERE:
                enough, too_weak = monitor, [elsewhere, *(only[role] for role in roles)]
            if call == "POST /v1/note-times":
                enough = only["write"]
            for bad, problem in refused if call not in OPEN else ():
                assert _problem(visitor.play(example, bad)) == problem, call
            for bad in too_weak if call in NEEDED or call in EVERYWHERE else ():
                assert _problem(visitor.play(example, bad)) == FORBIDDEN, call
            answer = visitor.play(example, {} if call in OPEN else enough)
            assert answer.status_code == example.status, (call, answer.text)
    assert {one.call for one in EXAMPLES} == NEEDED.keys() | OPEN | FILTERED | EVERYWHERE


class House(NamedTuple):
    """One guarded server for several tests, with tokens that they share."""

    client: httpx.Client
    everything: dict[str, str]
    reader: dict[str, str]
    writer: dict[str, str]
    operator: dict[str, str]

    def put(self, path: str, body: dict[str, Any]) -> None:
        """Make something, with the token that may do everything."""
        self.client.put(path, json=body, headers=self.everything).raise_for_status()


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, new_server: NewServer) -> Iterator[House]:
    tokens = Tokens(tmp_path_factory.mktemp("house"))
    roles = [str(role) for role in Role]
    everything = tokens.header("everything", "*", *roles)
    reader, writer, operator = (
        tokens.header(f"my-{role}", "mine", role) for role in ("read", "write", "operate")
    )
    with (
        new_server(tokens=tokens.file) as server,
        httpx.Client(base_url=server.url, timeout=20) as client,
    ):
        yield House(client, everything, reader, writer, operator)


def test_any_role_is_enough_to_see_a_stream_and_its_writers(house: House) -> None:
    path = "/v1/streams/mine/seen"
    house.put(path, {"segments": 1})
    for header in (house.reader, house.writer, house.operator):
        for call in ("", "/watermark", "/writers"):
            assert house.client.get(path + call, headers=header).status_code == 200


@pytest.mark.parametrize("call", ["GET /v1/streams", "POST /v1/note-times", "GET /metrics"])
def test_two_tokens_in_one_request_are_refused_even_if_both_are_good(
    house: House, call: str
) -> None:
    (shown,) = house.everything.items()
    method, path = call.split()
    for others in (house.everything, house.reader, {"authorization": ""}):
        twice = [shown, *others.items()]
        answer = house.client.request(method, path, headers=twice)
        challenge = 'Bearer realm="tidegauge", error="invalid_request"'
        assert _problem(answer) == (401, "unauthenticated", challenge)
        assert answer.json()["reason"] == "repeated"


def test_lists_leave_out_what_is_in_other_scopes(house: House) -> None:
    for stream in ("mine/listed", "yours/listed"):
        house.put(f"/v1/streams/{stream}", {"segments": 1})
        house.put(f"/v1/reader-groups/{stream}", {"streams": [stream]})
    seen = house.client.get("/v1/streams", headers=house.operator).json()["streams"]
    assert {one["stream"].partition("/")[0] for one in seen} == {"mine"}
    groups = house.client.get("/v1/reader-groups", headers=house.reader).json()["groups"]
    assert {one["group"].partition("/")[0] for one in groups} == {"mine"}
    answer = house.client.get("/v1/reader-groups", headers=house.writer)
    assert (answer.json()["groups"], answer.json()["cursor"]) == ([], None)


def test_each_of_many_reports_needs_the_role_in_its_own_scope(house: House) -> None:
    for stream in ("mine/noted", "yours/noted"):
        house.put(f"/v1/streams/{stream}", {"segments": 1})
    streams = ["yours/noted", "mine/noted", "yours/none", "mine/none"]
    report = {"writer": "w", "time": 1_700_000_000_000}
    many = {"reports": [{"stream": stream, **report} for stream in streams]}
    answer = house.client.post("/v1/note-times", json=many, headers=house.writer)
    assert [one.get("code", one["status"]) for one in answer.json()["results"]] == [
        "forbidden",
        200,
        "forbidden",
        "unknown_stream",
    ]


def test_a_group_reads_streams_only_where_its_maker_and_its_asker_read(house: House) -> None:
    path, wanted = "/v1/reader-groups/mine/g", {"streams": ["yours/read"]}
    house.put("/v1/streams/yours/read", {"segments": 1})
    assert _problem(house.client.put(path, json=wanted, headers=house.reader)) == FORBIDDEN
    house.put(path, wanted)
    query = {"stream": "yours/read"}
    window = house.client.get(f"{path}/time-window", params=query, headers=house.reader)
    assert _problem(window) == FORBIDDEN


def test_what_is_not_there_shows_only_to_who_may_see_the_scope(house: House) -> None:
    client, mine = house.client, house.reader
    assert client.get("/v1/streams/mine/none", headers=mine).status_code == 404
    assert client.get("/v1/streams/yours/none", headers=mine).status_code == 403
    assert client.get("/v1/none", headers=mine).status_code == 404
    assert client.get("/v1/none").status_code == 401
    assert client.get("/openapi.json").status_code == 200
    assert client.get("/docs").status_code == 200


def test_tokens_come_and_go_while_the_service_runs(
    new_server: NewServer, tokens: Tokens
) -> None:
    with (
        new_server(tokens=tokens.file, launcher=OFTEN_LOOKING) as guarded,
        httpx.Client(base_url=guarded.url) as client,
    ):
        token = tokens.header("late-comer", SCOPE, "read")
        wait_until(lambda: client.get("/v1/streams", headers=token).status_code == 200)
        tokens.file.write_text("[[token")
        wait_until(lambda: "the tokens read before stay in force" in guarded.log.read_text())
        assert client.get("/v1/streams", headers=token).status_code == 200
        tokens.file.write_text("")
        wait_until(lambda: client.get("/v1/streams", headers=token).status_code == 401)


@pytest.fixture
def taciturn(new_server: NewServer, tokens: Tokens) -> ServerProcess:
    """One that logs errors alone."""
    return new_server(tokens=tokens.file, log_level="error")


def test_what_operators_do_is_logged_with_their_name_at_any_level(
    taciturn: ServerProcess, tokens: Tokens
) -> None:
    both = tokens.header("alice", SCOPE, "operate", "write")
    path = f"/v1/streams/{SCOPE}/departures"
    with taciturn, httpx.Client(base_url=taciturn.url, headers=both) as client:
        client.put(path, json={"segments": 1}).raise_for_status()
        client.post(f"{path}/writers/w/register").raise_for_status()
        client.post(f"{path}/writers/w/expire").raise_for_status()
        client.post(f"{path}/seal").raise_for_status()
        client.delete(path).raise_for_status()
        taciturn.stop()
    log = taciturn.log.read_text()
    assert "stream created" not in log
    assert re.findall(r"operator call \S+ caller=alice (method=.* status=\d+)", log) == [
        f"method=PUT path={path} status=201",
        f"method=POST path={path}/writers/w/expire status=200",
        f"method=POST path={path}/seal status=200",
        f"method=DELETE path={path} status=204",
    ]


def test_what_others_wanted_to_do_in_place_of_operators_is_logged(
    taciturn: ServerProcess, tokens: Tokens
) -> None:
    reader = tokens.header("bob", SCOPE, "read", "write")
    path = f"/v1/streams/{SCOPE}/departures"
    with taciturn, httpx.Client(base_url=taciturn.url, headers=reader) as client:
        assert client.delete(path).status_code == 403
        assert client.post(f"{path}/writers/w/expire").status_code == 403
        assert client.get("/metrics").status_code == 403
        taciturn.stop()
    log = taciturn.log.read_text()
    assert re.findall(
        r"operator call refused \S+ caller=bob (method=.* status=\d+.*)", log
    ) == [
        f"method=DELETE path={path} status=403 stream={SCOPE}/departures",
        f"method=POST path={path}/writers/w/expire status=403 stream={SCOPE}/departures writer=w",
    ]
    assert log.count("caller=") == 2
    assert reader["authorization"].removeprefix("Bearer ") not in log


def test_without_tokens_what_operators_do_is_logged_too(shared_server: ServerProcess) -> None:
    with Api(shared_server.url, "audit/one") as api:
        api.create()
        api.post("seal", position={"0": 0})
    said = "caller=anybody method=POST path=/v1/streams/audit/one/seal status=200"
    assert said in shared_server.log.read_text()


def test_a_token_shows_in_no_log_error_or_metric_of_the_service(
    guarded: ServerProcess, tokens: Tokens
) -> None:
    good = tokens.header("good", "*", "read", "write", "operate")
    late = tokens.header("late", "*", "read", lasts=EXPIRED)
    wrong = {"authorization": "Bearer tg_never_made_by_anybody"}
    said = []
    path = f"/v1/streams/{SCOPE}/departures"
    with guarded, httpx.Client(base_url=guarded.url) as client:
        for header in (good, late, wrong):
            put = client.put(path, json={"segments": 1}, headers=header)
            note = client.post(f"{path}/writers/w/note-time", content=b"{", headers=header)
            lost = client.get("/nowhere", headers=header)
            said += [put.text, note.text, lost.text, str(put.headers)]
        said.append(client.get("/metrics", headers=good).text)
        guarded.stop()
    said += [guarded.log.read_text(), tokens.file.read_text()]
    for header in (good, late, wrong):
        token = header["authorization"].removeprefix("Bearer ")
        assert not [text for text in said if token in text]


@pytest.mark.parametrize("host", ["0.0.0.0", ""])
def test_nobody_is_exposed_by_accident(host: str) -> None:
    with pytest.raises(ExposedError) as refused:
        check_exposure(ServeSettings(host=host))
    said = str(refused.value)
    assert (
        f"listening on {host or 'all addresses'} without authentication would let anybody"
        in said
    )
    assert "--insecure" in said


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost"])
def test_what_only_this_machine_reaches_exposes_nobody(host: str) -> None:
    check_exposure(ServeSettings(host=host))


def test_an_exposed_service_does_not_even_make_its_database(new_server: NewServer) -> None:
    server = new_server(host="0.0.0.0")
    assert "without authentication would let anybody" in server.refusal()
    assert not server.database.exists()


@pytest.mark.parametrize(
    ("insecure", "said"),
    [
        (True, "no authentication: anybody who reaches 0.0.0.0 may read, write and delete"),
        (
            False,
            "tokens are sent unencrypted unless a proxy in front of the service terminates TLS",
        ),
    ],
)
def test_exposed_on_purpose_or_with_tokens_it_serves_and_says_so(
    tokens: Tokens, caplog: pytest.LogCaptureFixture, said: str, *, insecure: bool
) -> None:
    file = None if insecure else tokens.file
    check_exposure(ServeSettings(host="0.0.0.0", insecure=insecure, tokens=file))
    assert [(one.levelname, one.getMessage()) for one in caplog.records] == [("WARNING", said)]


def test_it_does_not_start_without_the_tokens_it_was_told_of(
    new_server: NewServer, tmp_path: Path
) -> None:
    server = new_server(tokens=tmp_path / "none.toml")
    assert "No such file or directory" in server.refusal()


@pytest.fixture(scope="module")
def document(shared_server: ServerProcess) -> Any:
    return httpx.get(f"{shared_server.url}/openapi.json").raise_for_status().json()


def test_the_document_says_what_each_call_needs(document: Any) -> None:
    assert document["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    calls = dict(_operations(document))
    assert calls.keys() == NEEDED.keys() | OPEN | FILTERED | EVERYWHERE
    for call, operation in calls.items():
        assert ("security" in operation) == (call not in OPEN), call
        if call in NEEDED and NEEDED[call] in set(Role):
            assert f"Needs the role `{NEEDED[call]}`" in operation["description"], call


def _operations(document: Any) -> Iterator[tuple[str, Any]]:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield f"{method.upper()} {path}", operation
