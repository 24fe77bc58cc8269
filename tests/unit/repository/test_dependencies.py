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
import uvicorn
from packaging.requirements import Requirement
from starlette.requests import Request
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

PROJECT = Path(__file__).parents[3] / "pyproject.toml"
LEANT_ON = ["fastapi", "httptools", "starlette", "uvicorn"]


@pytest.mark.parametrize("name", LEANT_ON)
def test_it_has_an_upper_bound(name: str) -> None:
    project = tomllib.loads(PROJECT.read_text())["project"]
    requirements = map(Requirement, project["optional-dependencies"]["controller"])
    (found,) = (one for one in requirements if one.name == name)
    assert "<" in {clause.operator for clause in found.specifier}


@pytest.mark.parametrize(
    "method", ["connection_made", "on_headers_complete", "on_message_complete"]
)
def test_a_connection_of_uvicorn_does_in_this_method_what_ours_adds_to(method: str) -> None:
    assert callable(getattr(HttpToolsProtocol, method))


@pytest.mark.parametrize("attribute", ["headers", "parser", "scope", "transport", "url"])
def test_a_connection_of_uvicorn_keeps_this_where_ours_reads_it(attribute: str) -> None:
    source = inspect.getsource(HttpToolsProtocol)
    assert f"self.{attribute} = " in source or f"self.{attribute}: " in source


def test_a_server_of_uvicorn_lets_us_handle_signals_ticks_and_its_end() -> None:
    for method in ("handle_exit", "on_tick", "shutdown", "capture_signals"):
        assert callable(getattr(uvicorn.Server, method))


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
