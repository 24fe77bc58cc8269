"""The OpenAPI document, whose examples are played against a service, one after another."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from controller.http.examples import EXAMPLES
from tests.service.in_process import Service
from tests.service.story import StoryClient, operations, recorded
from tidegauge.errors import PROBLEMS

INTEGER = {"$ref": "#/components/schemas/Int64"}


@pytest.fixture(scope="module")
def document(service: Service) -> Any:
    with httpx.Client(transport=service, base_url=service.url) as client:
        return client.get("/openapi.json").raise_for_status().json()


def test_every_post_says_that_it_may_be_refused_to_a_page_of_another_site(
    document: Any,
) -> None:
    posts = [one for call, one in operations(document) if call.startswith("POST")]
    assert posts
    assert all("415" in one["responses"] for one in posts)


def test_the_examples_say_what_the_service_answers(service: Service) -> None:
    with StoryClient(transport=service, base_url=service.url) as client:
        for example in EXAMPLES:
            answer = client.play(example)
            assert answer.status_code == example.status, (example.call, answer.text)
            stale = f"{example.call}: run python scripts/reference_pages.py"
            assert recorded(answer, example.answer) == example.answer, stale


@pytest.mark.parametrize(
    ("place", "name", "least", "most"),
    [
        ("NoteTime", "incarnation", 0, None),
        ("CreateStream", "segments", 1, 10_000),
        ("ChangeStream", "mark_interval_ms", 0, 315_360_000_000),
        ("CreateGroup", "heartbeat_ms", 100, 3_600_000),
        ("GET {}/marks", "limit", 1, 1_000),
        ("GET {}/segments/{segment}/events", "end", 0, None),
        ("POST {}/events", "incarnation", 0, None),
        ("POST {}/segments/{segment}/events", "tidegauge-sequence", 1, None),
    ],
)
def test_bounds_of_fields_and_parameters_are_documented(
    document: Any, place: str, name: str, least: int, most: int | None
) -> None:
    if place in document["components"]["schemas"]:
        described = document["components"]["schemas"][place]["properties"][name]
    else:
        call = place.replace("{}", "/v1/streams/{scope}/{stream}")
        parameters = dict(operations(document))[call]["parameters"]
        (described,) = (each["schema"] for each in parameters if each["name"] == name)
    words = f"{least} or more" if most is None else f"{least} to {most}"
    assert f"({words}" in described["description"]
    assert INTEGER in [*described.get("anyOf", []), {"$ref": described.get("$ref")}]


def test_no_union_has_what_generators_of_clients_make_uncompilable_code_of(
    document: Any,
) -> None:
    unions = [one for one in _schemas(document) if "anyOf" in one or "oneOf" in one]
    assert unions
    for union in unions:
        alternatives: list[dict[str, Any]] = union.get("anyOf") or union["oneOf"]
        assert "default" not in union, union
        assert not any("format" in one and one["type"] == "string" for one in alternatives)
        assert not any("additionalProperties" in one for one in alternatives), union
    start = document["components"]["schemas"]["CreateGroup"]["properties"]["start_cut"]
    assert start["additionalProperties"] == {"$ref": "#/components/schemas/Position"}


def test_all_integers_have_64_bits(document: Any) -> None:
    integers = [one for one in _schemas(document) if "integer" in _types(one)]
    assert integers
    assert [one for one in integers if one.get("format") != "int64"] == []


def _types(schema: dict[str, Any]) -> list[str]:
    given = schema.get("type", [])
    return given if isinstance(given, list) else [given]


def _schemas(part: Any) -> Iterator[dict[str, Any]]:
    """List all schemas in a document, and other objects that are none."""
    if isinstance(part, dict):
        yield part
        for name, one in part.items():
            if name not in {"example", "examples"}:
                yield from _schemas(one)
    elif isinstance(part, list):
        for one in part:
            yield from _schemas(one)


def test_every_call_has_an_example(document: Any) -> None:
    assert {call for call, _ in operations(document)} == {one.call for one in EXAMPLES}
    assert len({one.call for one in EXAMPLES}) == len(EXAMPLES)


def test_every_call_and_every_field_is_described(document: Any) -> None:
    for call, operation in operations(document):
        assert operation["description"], call
        assert "422" in operation["responses"], call
        for parameter in operation.get("parameters", ()):
            assert parameter.get("description"), (call, parameter["name"])
    for name, schema in document["components"]["schemas"].items():
        assert schema.get("description"), name
        for field, described in schema.get("properties", {}).items():
            assert described.get("description"), (name, field)


def test_every_refusal_is_documented_but_defects_and_methods_that_are_not_there(
    document: Any,
) -> None:
    said = {
        status for _, operation in operations(document) for status in operation["responses"]
    }
    assert {str(error.status) for error in PROBLEMS.values()} - said == {"405", "500"}
    for call, operation in operations(document):
        assert {"413", "503"} <= operation["responses"].keys(), call
        changes = not call.startswith("GET ")
        assert ("502" in operation["responses"]) is changes, call
