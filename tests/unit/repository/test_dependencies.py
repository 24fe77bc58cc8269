"""What is subclassed or relied on beyond its documentation has an upper bound; this says what it is.

Raise a bound in `pyproject.toml` when these pass with the new version, and those of connections,
upgrades and cut-off calls do.
"""

import inspect
import tomllib
from pathlib import Path

import fastapi.routing
import httptools
import pytest
from packaging.requirements import Requirement
from starlette.requests import Request

PROJECT = Path(__file__).parents[3] / "pyproject.toml"
LEANT_ON = ["fastapi", "httptools", "starlette", "uvicorn"]


@pytest.mark.parametrize("name", LEANT_ON)
def test_it_has_an_upper_bound(name: str) -> None:
    project = tomllib.loads(PROJECT.read_text())["project"]
    requirements = map(Requirement, project["optional-dependencies"]["controller"])
    (found,) = (one for one in requirements if one.name == name)
    assert "<" in {clause.operator for clause in found.specifier}


def test_the_parser_tells_of_offers_and_where_a_head_with_one_ends() -> None:
    class Heard:
        headers: list[tuple[bytes, bytes]]

    parser = httptools.HttpRequestParser(Heard())
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    head = b"GET / HTTP/1.1\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n"
    with pytest.raises(httptools.HttpParserUpgrade) as upgrade:
        parser.feed_data(head + b"rest")
    assert upgrade.value.args[0] == len(head)
    assert parser.should_upgrade()


async def _route(name: str, query: int, body: dict[str, int]) -> None:
    """Take what a route takes."""


def test_a_route_of_fastapi_reads_json_by_its_request_and_tells_its_parameters() -> None:
    assert "await request.json()" in inspect.getsource(fastapi.routing)
    route = fastapi.routing.APIRoute("/{name}", _route, methods=["POST"])
    assert [one.alias for one in route.dependant.query_params] == ["query"]
    assert route.body_field is not None
    assert callable(fastapi.routing.APIRoute.get_route_handler)
    assert callable(Request.json)
