"""The page for browsers, what a program reads at the same address, and all calls of the API."""

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from fastapi.staticfiles import StaticFiles
from pydantic import Field

from controller.access.needs import DOCUMENTATION, FRONT_PAGE
from controller.http.routing import ProcessOf, router_of
from controller.streams.lifecycle import config_of
from tidegauge.explain.first_steps import first_commands
from tidegauge.explain.states import LABELS, MEANINGS, TONES, State, Tone
from tidegauge.states import WriterState
from tidegauge.wire.streams import CreateStream
from tidegauge.wire.values import Answer

router = router_of("operations", APIRoute)
documentation = APIRouter()
FILES = Path(__file__).parent / "page"
_VERSION = version("tidegauge")
_TO_BLAME: Mapping[State, list[WriterState]] = {
    "held": ["behind", "joining"],
    "few": ["joining"],
    "nobody": ["expired"],
}
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    # A browser asks each time: the page may be that of a newer version.
    "cache-control": "no-cache",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
_PAGE = (FILES / "index.html").read_text("utf-8").replace("$version", _VERSION)
_DOCUMENTATION = (FILES / "docs.html").read_text("utf-8")


class StateMeaning(Answer):
    """What a state of a stream means."""

    state: State = Field(description="In one word.")
    label: str = Field(description="What people read.")
    tone: Tone = Field(description="How bad it is at least.")
    meaning: str = Field(description="In a sentence.")
    to_blame: list[WriterState] = Field(
        description="Writers in these states have the tone of the stream."
    )


class SettingMeaning(Answer):
    """A setting of a stream."""

    name: str = Field(description="As it is sent.")
    default: Any = Field(description="Its value if it is left out.")
    meaning: str = Field(description="What it does.")


class FrontPage(Answer):
    """``GET /``."""

    version: str = Field(description="Version of the service.")
    standby: str | None = Field(
        description="Why this controller serves no streams; null while it does."
    )
    states: list[StateMeaning] = Field(description="All states of a stream, trouble first.")
    settings: list[SettingMeaning] = Field(description="All settings of a stream.")
    first_steps: list[str] = Field(
        description="Commands for a shell, which end with a watermark that moves."
    )
    links: dict[str, str] = Field(
        description="Other pages and calls; `holder` is the controller that holds the database, "
        "if this one stands by."
    )


_STATES = [
    StateMeaning(
        state=state,
        label=label,
        tone=TONES[state],
        meaning=MEANINGS[state],
        to_blame=_TO_BLAME.get(state, []),
    )
    for state, label in LABELS.items()
]
_DEFAULTS = config_of(CreateStream())
_SETTINGS = [
    SettingMeaning(name=name, default=getattr(_DEFAULTS, name), meaning=field.description or "")
    for name, field in CreateStream.model_fields.items()
]


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
    """Return the page for browsers, or what it says once: version, words, first steps.

    A controller that stands by says so, and links to the one that holds the database. Parameters
    are ignored: a link may carry those of the site on which it was shared.
    """
    headers = _HEADERS | {"vary": "accept"}
    if "text/html" in accept and "application/json" not in accept:
        return HTMLResponse(_PAGE, headers=headers)
    response.headers.update(headers)
    holder = None if process.holds else process.right.holder
    return FrontPage(
        version=_VERSION,
        standby=None if process.holds else process.standby,
        states=_STATES,
        settings=_SETTINGS,
        first_steps=list(first_commands(str(request.base_url))),
        links={
            "documentation": DOCUMENTATION,
            "metrics": "/metrics",
            "openapi": "/openapi.json",
            "streams": "/v1/streams",
        }
        | ({"holder": holder} if holder else {}),
    )


@documentation.get(DOCUMENTATION, include_in_schema=False)
async def documentation_page() -> HTMLResponse:
    """Show all calls, with scripts and styles that `fastapi-offline` brings, not the internet."""
    headers = dict(_HEADERS)
    policy = headers["content-security-policy"]
    # The styles of Swagger UI have their pictures within them.
    headers["content-security-policy"] = policy.replace("img-src", "img-src data:")
    return HTMLResponse(_DOCUMENTATION, headers=headers)


class PageFiles(StaticFiles):
    """The files of the page."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:  # noqa: ANN401 (those of the base)
        """Answer with a file, or that the browser has it."""
        response = super().file_response(*args, **kwargs)
        response.headers.update(_HEADERS)
        return response
