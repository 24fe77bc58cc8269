"""The OpenAPI document is fuzzed: no call fails, takes or answers what it does not say."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from controller.http.examples import EXAMPLES, NAMES
from tests.conftest import NewServer
from tests.effort import Effort
from tests.service.log_api import arrow_of
from tidegauge.wire.events import ARROW, NDJSON

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
CALLS = [one.call for one in EXAMPLES]
KNOWN = dict(NAMES)
"""What is there before each call is tried."""
TAKES_NOTHING = {"/healthz", "/readyz", "/metrics"}
ANSWERS_IN_PLACE = {"/v1/note-times"}
"""What refuses parts of a request within a success."""
LONGEST_WAIT_MS = 5

bounded = settings(phases=[Phase.generate], suppress_health_check=list(HealthCheck))


def _lines(events: list[Any]) -> bytes:
    return "\n".join(json.dumps(one) for one in events).encode()


_keys = st.text(max_size=8)
_times = st.none() | st.integers(-(2**63), 2**63 - 1)
_rows = st.tuples(st.none() | _keys, _times, st.none() | st.binary(max_size=8))
_objects = st.fixed_dictionaries(
    {"key": _keys, "value": _keys}, optional={"event_time": _times | _keys, "more": st.none()}
)
_anything = st.recursive(
    st.none() | st.booleans() | st.floats() | _keys, st.lists, max_leaves=3
)
schemathesis.openapi.media_type(
    ARROW, st.lists(_rows, max_size=3).map(arrow_of) | st.binary(max_size=200)
)
schemathesis.openapi.media_type(
    NDJSON, st.lists(_objects | _anything, max_size=3).map(_lines) | st.binary(max_size=50)
)


class Fuzzed(NamedTuple):
    """A service, and what it says about itself."""

    client: httpx.Client
    schema: Any


@pytest.fixture(scope="module")
def fuzzed(new_server: NewServer) -> Iterator[Fuzzed]:
    with new_server() as server, httpx.Client(base_url=server.url, timeout=20) as client:
        document = client.get("/openapi.json").json()
        for operations in document["paths"].values():
            for operation in operations.values():
                operation.pop("security", None)  # this service has no tokens
        schema = schemathesis.openapi.from_dict(document)
        schema.config.update(base_url=server.url)
        yield Fuzzed(client, schema)


def _make_what_is_known(client: httpx.Client) -> None:
    """Make it; what a call before deleted or sealed is made anew."""
    stream, group = "/v1/streams/flights/departures", "/v1/reader-groups/flights/delays"
    client.delete(group)
    client.delete(stream)
    client.put(stream, json={"segments": 1}).raise_for_status()
    client.post(f"{stream}/writers/carrier-AA/register").raise_for_status()
    begun = client.post(
        f"{stream}/transactions", json={"writer": "carrier-AA", "incarnation": 1}
    ).raise_for_status()
    KNOWN["transaction"] = begun.json()["id"]
    client.put(group, json={"streams": ["flights/departures"]}).raise_for_status()
    client.post(f"{group}/readers/reader-1").raise_for_status()


PLACES = [(call, False) for call in CALLS] + [(call, True) for call in CALLS if "{" in call]


@pytest.mark.parametrize(("call", "is_known"), PLACES)
def test_whatever_is_sent_is_answered_as_described(
    fuzzed: Fuzzed, call: str, effort: Effort, *, is_known: bool
) -> None:
    method, _, path = call.partition(" ")
    operation = fuzzed.schema[path][method]
    if is_known:
        _make_what_is_known(fuzzed.client)
    at = {name: value for name, value in KNOWN.items() if f"{{{name}}}" in path}
    cases = [
        operation.as_strategy(mode, path_parameters=at if is_known else None)
        for mode in GenerationMode
        if mode is GenerationMode.POSITIVE or path not in TAKES_NOTHING
    ]

    checks = [*CHECKS, *([] if path in ANSWERS_IN_PLACE else [negative_data_rejection])]

    examples = effort.times("requests", short=5, long=200)

    @given(st.one_of(cases))
    @settings(bounded, max_examples=examples)
    def send(case: Any) -> None:
        _wait_no_longer(case.query)
        case.call_and_validate(checks=checks)

    send()


def _wait_no_longer(query: dict[str, Any]) -> None:
    wait_ms = str(query.get("wait_ms"))
    if wait_ms.isdecimal() and LONGEST_WAIT_MS < int(wait_ms) <= 30_000:
        query["wait_ms"] = LONGEST_WAIT_MS
