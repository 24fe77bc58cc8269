"""Pages for browsers: what this is and how far its streams are; and all calls of the API."""

from collections.abc import Sequence
from html import escape
from importlib.metadata import version
from importlib.resources import files
from string import Template
from typing import Annotated

from fastapi import APIRouter, Header, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse
from pydantic import Field

from controller.access.callers import NOBODY, Caller
from controller.access.needs import DOCUMENTATION, DOCUMENTATION_ASSETS, FRONT_PAGE
from controller.factory import Parts
from controller.http.routing import (
    PARTS,
    CallerOf,
    ProcessOf,
    StrictRoute,
)
from tidegauge.event_time import describe_event_time
from tidegauge.explain.first_steps import WATERMARK, first_commands
from tidegauge.explain.states import LABELS
from tidegauge.wire.values import Answer

router = APIRouter(route_class=StrictRoute, tags=["operations"])
documentation = APIRouter()
_PAGE = Template(files(__package__).joinpath("front_page.html").read_text("utf-8"))
_MOST = 100
"""How many streams are named: an overview, which costs a bounded time."""
_HEADERS = {
    # The page loads nothing, so that nothing that gets into it could load anything.
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:",
    "vary": "accept",
}


class ListedState(Answer):
    """The watermark and the state of a stream."""

    stream: str = Field(description="scope/stream.")
    watermark: int | None = Field(description="`lower` of the newest mark, ms.")
    state: str = Field(description="State in a few words.")


class FrontPage(Answer):
    """``GET /``."""

    version: str = Field(description="Version of the service.")
    streams: list[ListedState] = Field(
        description=f"The first {_MOST} at most of those that the caller may see; trouble comes "
        "first."
    )
    more: bool = Field(description="Whether there are others, which `GET /v1/streams` lists.")
    links: dict[str, str] = Field(description="Links to other pages and calls.")


@router.get(
    FRONT_PAGE,
    response_model=FrontPage,
    responses={200: {"content": {"text/html": {}}}},
)
async def front_page(
    request: Request,
    process: ProcessOf,
    caller: CallerOf,
    response: Response,
    accept: Annotated[str, Header(description="`text/html` for the page.")] = "",
) -> FrontPage | HTMLResponse:
    """Say which version this is, how far the streams are that the caller may see, and where to read more.

    A controller that stands by says so, and links to the one that holds the database.
    """
    streams: list[ListedState] = []
    more = False
    holder, elsewhere = process.right.holder, {}
    if not process.holds:
        elsewhere = {"holder": holder} if holder else {}
    elif caller is not NOBODY:  # for a caller that may see none, all names would be read
        streams, more = await _list(request.scope[PARTS], caller)
    page = FrontPage(
        version=version("tidegauge"),
        streams=streams,
        more=more,
        links={
            "documentation": DOCUMENTATION,
            "metrics": "/metrics",
            "openapi": "/openapi.json",
            "streams": "/v1/streams",
            **elsewhere,
        },
    )
    if "text/html" in accept and "application/json" not in accept:
        url = str(request.base_url)
        standby = "" if process.holds else process.standby
        body = _write(page, url=url, is_anonymous=caller is NOBODY, standby=standby)
        return HTMLResponse(body, headers=_HEADERS)
    response.headers.update(_HEADERS)
    return page


@documentation.get(DOCUMENTATION, include_in_schema=False)
async def documentation_page() -> HTMLResponse:
    """Show all calls, with scripts and styles that `fastapi-offline` brings, not the internet.

    Its own factory is not used: the page that it makes keeps every application in memory.
    """
    return get_swagger_ui_html(
        title="Tidegauge",
        openapi_url="/openapi.json",
        swagger_js_url=f"{DOCUMENTATION_ASSETS}/swagger-ui-bundle.js",
        swagger_css_url=f"{DOCUMENTATION_ASSETS}/swagger-ui.css",
        swagger_favicon_url=f"{DOCUMENTATION_ASSETS}/favicon.png",
    )


async def _list(parts: Parts, caller: Caller) -> tuple[list[ListedState], bool]:
    found, more = await parts.listing.streams_in_short(None, _MOST, of=caller.roles)
    known = {one.stream: one for one in await parts.listing.explained(found)}
    now_ms = parts.clocks.now().wall_ms
    judged = {name: one.judged for name, one in known.items() if one.judged is not None}
    states = [
        ListedState(
            stream=name,
            watermark=known[name].watermark,
            state=known[name].describe_state(now_ms=now_ms),
        )
        for name in sorted(judged, key=lambda name: (judged[name].rank, name))
    ]
    return states, more


def _write(page: FrontPage, *, url: str, is_anonymous: bool, standby: str) -> str:
    teaches = not page.streams and not (is_anonymous or standby)
    held = sum(one.state.startswith(LABELS["held"]) for one in page.streams)
    return _PAGE.substitute(
        title=f"{held} held · Tidegauge" if held else "Tidegauge",
        version=escape(page.version),
        body=_steps(url) if teaches else _table(page.streams),
        note=escape(standby) or _note(page, is_anonymous=is_anonymous),
    )


def _table(streams: Sequence[ListedState]) -> str:
    rows = ["<tr><th>Stream</th><th>Watermark</th><th>State</th></tr>"]
    for one in streams:
        watermark = "—" if one.watermark is None else describe_event_time(one.watermark)
        cells = (one.stream, watermark, one.state)
        rows.append(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>")
    return "\n".join(['<div class="list"><table>', *rows, "</table></div>"])


def _steps(url: str) -> str:
    commands = "\n".join(
        f"<li><code>{escape(one, quote=False)}</code></li>" for one in first_commands(url)
    )
    return (
        f'<div class="steps"><p>No stream yet. {WATERMARK}</p>'
        "<p>Type these in a terminal, then load this page again; the watermark of "
        "<b>demo/first</b> moves while the third command runs:</p>"
        f"<ol>{commands}</ol></div>"
    )


def _note(page: FrontPage, *, is_anonymous: bool) -> str:
    if is_anonymous:
        return "This service needs a token: <code>tidegauge streams</code> lists the streams that yours may see."
    if page.more:
        return "These are the first: <code>tidegauge streams</code> lists all."
    return "<code>tidegauge why SCOPE/STREAM</code> explains why a watermark is where it is."
