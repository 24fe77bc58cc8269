"""Pages for browsers: what this is, and all calls of the API."""

from html import escape
from importlib.metadata import version
from importlib.resources import files
from string import Template
from typing import Annotated

from fastapi import APIRouter, Header, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse
from pydantic import Field

from controller.access.needs import DOCUMENTATION, DOCUMENTATION_ASSETS, FRONT_PAGE
from controller.http.routing import ProcessOf, StrictRoute
from tidegauge.explain.first_steps import first_commands
from tidegauge.wire.values import Answer

router = APIRouter(route_class=StrictRoute, tags=["operations"])
documentation = APIRouter()
_PAGE = Template(files(__package__).joinpath("front_page.html").read_text("utf-8"))
_HEADERS = {
    # The page loads nothing, so that nothing that gets into it could load anything.
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:",
    "vary": "accept",
}


class FrontPage(Answer):
    """``GET /``."""

    version: str = Field(description="Version of the service.")
    links: dict[str, str] = Field(description="Links to other pages and calls.")


@router.get(
    FRONT_PAGE,
    response_model=FrontPage,
    responses={200: {"content": {"text/html": {}}}},
)
async def front_page(
    request: Request,
    process: ProcessOf,
    response: Response,
    accept: Annotated[str, Header(description="`text/html` for the page.")] = "",
) -> FrontPage | HTMLResponse:
    """Say which version this is, and where to read more.

    A controller that stands by says so, and links to the one that holds the database.
    """
    holder = None if process.holds else process.right.holder
    page = FrontPage(
        version=version("tidegauge"),
        links={
            "documentation": DOCUMENTATION,
            "metrics": "/metrics",
            "openapi": "/openapi.json",
            "streams": "/v1/streams",
            **({"holder": holder} if holder else {}),
        },
    )
    if "text/html" in accept and "application/json" not in accept:
        url = str(request.base_url)
        standby = "" if process.holds else process.standby
        body = _PAGE.substitute(
            version=escape(page.version), body=escape(standby) or _steps(url)
        )
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


def _steps(url: str) -> str:
    commands = "\n".join(
        f"<li><code>{escape(one, quote=False)}</code></li>" for one in first_commands(url)
    )
    return (
        '<div class="steps"><p>Type these in a terminal; the watermark of '
        "<b>demo/first</b> moves while the third command runs:</p>"
        f"<ol>{commands}</ol></div>"
    )
