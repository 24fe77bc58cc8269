"""Every call is tried with tokens that must not be enough, and with the least that is."""

from collections.abc import Iterator
from datetime import timedelta
from typing import NamedTuple

import httpx
import pytest

from controller.access.callers import Role
from controller.configuration import ServeSettings
from controller.http.examples import EXAMPLES, Example
from controller.serving.server import ExposedError, check_exposure, is_for_this_machine
from tests.conftest import NewDatabase
from tests.service.in_process import served_in_process
from tests.service.story import StoryClient, operations
from tests.tokens import Tokens

pytestmark = pytest.mark.only_on("sqlite", "callers are known before any database")

SCOPE = "flights"
SEE, ANY = "read or observe", "read, observe, write or operate"
ROLES = [str(role) for role in Role]
NEEDS = {role: {role} for role in ROLES} | {SEE: {"read", "observe"}, ANY: {*ROLES}}
_STREAM = "/v1/streams/{scope}/{stream}"
_WRITER = f"{_STREAM}/writers/{{writer}}"
_GROUP = "/v1/reader-groups/{scope}/{group}"
_TRANSACTION = f"{_STREAM}/transactions/{{transaction}}"
_READER = f"{_GROUP}/readers/{{reader}}"

OPEN = {"GET /", "GET /healthz", "GET /readyz"}
"""What needs no token."""
FILTERED = {"GET /v1/streams", "GET /v1/holds", "GET /v1/reader-groups", "POST /v1/note-times"}
"""What any token may ask; what it gets depends on its roles."""
EVERYWHERE = {"GET /metrics"}
"""What needs the role `read` or `observe` in all scopes."""
NEEDED = {
    f"PUT {_STREAM}": "operate",
    f"GET {_STREAM}": ANY,
    f"PATCH {_STREAM}": "operate",
    f"DELETE {_STREAM}": "operate",
    f"POST {_STREAM}/scale": "operate",
    f"POST {_STREAM}/truncate": "operate",
    f"POST {_STREAM}/seal": "operate",
    f"GET {_STREAM}/watermark": ANY,
    f"GET {_STREAM}/tail": SEE,
    f"GET {_STREAM}/marks": SEE,
    f"GET {_STREAM}/marks/at": SEE,
    f"GET {_STREAM}/marks/history": SEE,
    f"GET {_STREAM}/holds": ANY,
    f"POST {_STREAM}/events": "write",
    f"POST {_STREAM}/segments/{{segment}}/events": "write",
    f"GET {_STREAM}/segments/{{segment}}/events": "read",
    f"GET {_STREAM}/transactions": ANY,
    f"POST {_STREAM}/transactions": "write",
    f"GET {_TRANSACTION}": ANY,
    f"POST {_TRANSACTION}/segments/{{segment}}/events": "write",
    f"POST {_TRANSACTION}/events": "write",
    f"POST {_TRANSACTION}/ping": "write",
    f"POST {_TRANSACTION}/commit": "write",
    f"POST {_TRANSACTION}/abort": "write",
    f"POST {_STREAM}/batches/{{number}}": "write",
    f"GET {_STREAM}/writers": ANY,
    f"GET {_WRITER}": ANY,
    f"POST {_WRITER}/register": "write",
    f"POST {_WRITER}/note-time": "write",
    f"POST {_WRITER}/leave": "write",
    f"POST {_WRITER}/expire": "operate",
    f"PUT {_GROUP}": "read",
    f"GET {_GROUP}": SEE,
    f"DELETE {_GROUP}": "operate",
    f"GET {_GROUP}/state": SEE,
    f"PUT {_GROUP}/state": "read",
    f"GET {_GROUP}/time-window": SEE,
    f"POST {_GROUP}/progress": "read",
    f"POST {_READER}": "read",
    f"POST {_READER}/position": "read",
    f"POST {_READER}/heartbeat": "read",
    f"DELETE {_READER}": "read",
}


EXPIRED = timedelta(seconds=-1)
Header = dict[str, str]


class House(NamedTuple):
    """A service with streams in two scopes, and tokens by their names."""

    client: StoryClient
    headers: dict[str, Header]

    def ask(self, call: str, token: str, body: object = None) -> httpx.Response:
        method, path = call.split()
        return self.client.request(method, path, json=body, headers=self.headers[token])

    def play(self, example: Example, token: str) -> httpx.Response:
        return self.client.play(example, self.headers[token])


def _headers_of(tokens: Tokens) -> dict[str, Header]:
    made = {role: tokens.header(role, "mine", role) for role in ROLES}
    for number, (needed, roles) in enumerate(NEEDS.items()):
        if lacking := {*ROLES} - roles:
            made[f"lacks {needed}"] = tokens.header(f"lacks-{number}", SCOPE, *lacking)
        made[f"only {needed}"] = tokens.header(f"only-{number}", SCOPE, min(roles))
    made["elsewhere"] = tokens.header("elsewhere", "rides", *ROLES)
    made["monitor"] = tokens.header("monitor", "*", "observe")
    made["everything"] = tokens.header("everything", "*", *ROLES)
    made["late"] = tokens.header("late", "*", *ROLES, lasts=EXPIRED)
    made["wrong"] = {"authorization": "Bearer tg_wrong"}
    made["basic"] = {"authorization": "Basic YTpi"}
    return made | {"none": {}}


@pytest.fixture(scope="module")
def house(
    new_database: NewDatabase, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[House]:
    directory = tmp_path_factory.mktemp("access")
    tokens = Tokens(directory)
    headers = _headers_of(tokens)
    settings = ServeSettings(database_url=new_database(directory), tokens=tokens.file)
    with (
        served_in_process(settings) as service,
        StoryClient(base_url=service.url, transport=service) as client,
    ):
        house = House(client, headers)
        for name in ("mine/one", "yours/one"):
            house.ask(f"PUT /v1/streams/{name}", "everything", {"segments": 1})
            house.ask(f"PUT /v1/reader-groups/{name}", "everything", {"streams": [name]})
        house.ask("PUT /v1/reader-groups/mine/g", "everything", {"streams": ["yours/one"]})
        yield house


MISSING = (401, "unauthenticated", 'Bearer realm="tidegauge"')
INVALID = (401, "unauthenticated", 'Bearer realm="tidegauge", error="invalid_token"')
FORBIDDEN = (403, "forbidden", 'Bearer realm="tidegauge", error="insufficient_scope"')
REFUSED = {"none": MISSING, "basic": MISSING, "wrong": INVALID, "late": INVALID}


def _problem(answer: httpx.Response) -> tuple[int, str, str]:
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.status_code, answer.json()["code"], answer.headers["www-authenticate"]


def test_every_call_refuses_what_is_not_enough_and_takes_the_least_that_is(
    house: House,
) -> None:
    """Plays the story of the examples; what was refused before each step changed nothing."""
    for example in EXAMPLES:
        call = example.call
        needed = NEEDED.get(call, "")
        enough, too_weak = f"only {needed}", {"elsewhere", f"lacks {needed}"}
        if call in EVERYWHERE:
            enough, too_weak = "monitor", {"elsewhere", *(f"only {role}" for role in ROLES)}
        elif call in FILTERED:
            enough, too_weak = f"only {'write' if example.method == 'POST' else 'read'}", set()
        elif call in OPEN:
            enough, too_weak = "none", set()
        for token, problem in REFUSED.items() if call not in OPEN else ():
            assert _problem(house.play(example, token)) == problem, call
        for token in too_weak & house.headers.keys():
            assert _problem(house.play(example, token)) == FORBIDDEN, (call, token)
        answer = house.play(example, enough)
        assert answer.status_code == example.status, (call, answer.text)
    assert {one.call for one in EXAMPLES} == NEEDED.keys() | OPEN | FILTERED | EVERYWHERE


TABLE = [
    *(
        (f"GET /v1/streams/mine/one{call}", role, 200, None)
        for role in ROLES
        for call in ("", "/watermark", "/writers")
    ),
    # What is not there shows only to who may see the scope.
    ("GET /v1/streams/mine/none", "read", 404, "unknown_stream"),
    ("GET /v1/streams/yours/none", "read", 403, "forbidden"),
    ("GET /v1/none", "read", 404, "not_found"),
    ("GET /v1/none", "none", 401, "unauthenticated"),
    ("GET /openapi.json", "none", 200, None),
    ("GET /docs", "none", 200, None),
    # A group reads streams only where its maker and its asker read.
    ("PUT /v1/reader-groups/mine/other", "read", 403, "forbidden"),
    ("GET /v1/reader-groups/mine/g/time-window?stream=yours/one", "read", 403, "forbidden"),
]


@pytest.mark.parametrize(("call", "token", "status", "code"), TABLE)
def test_what_a_token_lets_its_holder_see(
    house: House, call: str, token: str, status: int, code: str | None
) -> None:
    body = {"streams": ["yours/one"]} if call.startswith("PUT") else None
    answer = house.ask(call, token, body)
    assert answer.status_code == status
    assert code is None or answer.json()["code"] == code


@pytest.mark.parametrize("call", ["GET /v1/streams", "POST /v1/note-times", "GET /metrics"])
def test_two_tokens_in_one_request_are_refused_even_if_both_are_good(
    house: House, call: str
) -> None:
    method, path = call.split()
    shown = house.headers["everything"]["authorization"]
    for other in (shown, house.headers["read"]["authorization"], ""):
        twice = [("authorization", shown), ("authorization", other)]
        answer = house.client.request(method, path, headers=twice)
        challenge = 'Bearer realm="tidegauge", error="invalid_request"'
        assert _problem(answer) == (401, "unauthenticated", challenge)
        assert answer.json()["reason"] == "repeated"


def test_lists_leave_out_what_is_in_other_scopes(house: House) -> None:
    streams = house.ask("GET /v1/streams", "operate").json()["streams"]
    assert [stream["stream"] for stream in streams] == ["mine/one"]
    groups = house.ask("GET /v1/reader-groups", "read").json()["groups"]
    assert [group["group"] for group in groups] == ["mine/g", "mine/one"]
    nothing = house.ask("GET /v1/reader-groups", "write").json()
    assert (nothing["groups"], nothing["cursor"]) == ([], None)


def test_each_of_many_reports_needs_the_role_in_its_own_scope(house: House) -> None:
    streams = {
        "yours/one": "forbidden",
        "mine/one": 200,
        "yours/none": "forbidden",
        "mine/none": "unknown_stream",
    }
    report = {"writer": "w", "time": 1_700_000_000_000}
    many = {"reports": [{"stream": stream, **report} for stream in streams]}
    results = house.ask("POST /v1/note-times", "write", many).json()["results"]
    assert [one.get("code", one["status"]) for one in results] == [*streams.values()]


IN_THE_CLEAR = (
    "tokens are sent unencrypted unless a proxy in front of the service terminates TLS"
)
ANYBODY = "no authentication: anybody who reaches 0.0.0.0 may read, write and delete"
ALL_ADDRESSES = {"host": "0.0.0.0"}


@pytest.mark.parametrize("host", ["0.0.0.0", ""])
def test_nobody_is_exposed_by_accident(host: str) -> None:
    listens = f"listening on {host or 'all addresses'} without authentication"
    with pytest.raises(ExposedError, match=f"{listens} would let anybody.*--insecure"):
        check_exposure(ServeSettings(host=host))


@pytest.mark.parametrize(
    ("given", "is_local", "said"),
    [
        ({}, True, []),
        ({"host": "127.0.0.2"}, True, []),
        ({"host": "localhost"}, True, []),
        ({"insecure": True}, False, []),
        ({"tokens": "t"}, False, []),
        (ALL_ADDRESSES | {"insecure": True}, False, [ANYBODY]),
        (ALL_ADDRESSES | {"tokens": "t"}, False, [IN_THE_CLEAR]),
        (ALL_ADDRESSES | {"tokens": "t", "tls_certificate": "c"}, False, []),
    ],
)
def test_a_service_says_what_exposes_it_and_checks_names_where_only_its_machine_calls(
    caplog: pytest.LogCaptureFixture,
    given: dict[str, object],
    said: list[str],
    *,
    is_local: bool,
) -> None:
    settings = ServeSettings.model_validate(given)
    check_exposure(settings)
    assert (is_for_this_machine(settings), caplog.messages) == (is_local, said)


def test_the_document_says_what_each_call_needs(house: House) -> None:
    document = house.ask("GET /openapi.json", "none").json()
    assert document["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    calls = dict(operations(document))
    assert calls.keys() == NEEDED.keys() | OPEN | FILTERED | EVERYWHERE
    for call, operation in calls.items():
        assert ("security" in operation) == (call not in OPEN), call
        if call in NEEDED and NEEDED[call] in set(Role):
            assert f"Needs the role `{NEEDED[call]}`" in operation["description"], call
