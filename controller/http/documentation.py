"""The OpenAPI document: what FastAPI finds out, problems as they are, and the examples."""

import base64
from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import Field
from starlette.routing import BaseRoute

from controller.access.needs import NEEDS, Need
from controller.http.examples import EXAMPLES, NAMES, Example
from controller.http.messages.problems import PROBLEM_JSON
from controller.http.schemas import COMPONENTS, simplify
from tidegauge.errors import UnknownStreamError
from tidegauge.wire.values import Answer

_BEARER = "bearer"
_MEANINGS = {
    307: "The controller stands by: `stands_by`; `Location` is the same call at the one that holds the "
    "database.",
    401: "There is no valid token: `unauthenticated`.",
    403: "The token lacks a role: `forbidden`; or, without authentication, a page of another site "
    "would change something: `foreign_origin`.",
    404: "What the path names does not exist; the code says what is missing.",
    409: "The request conflicts with what is stored; the code says how.",
    410: "The events were dropped: `truncated`, with the first offset that is left.",
    412: "Somebody changed it first, or it exists already: `precondition_failed`.",
    413: "The body is larger than the limit of the service: `body_too_large`.",
    415: "The content type is missing or not accepted (or there is no body, and a page of another "
    "site may have sent the call): `unsupported_media_type`; or the body is compressed: "
    "`unsupported_content_encoding`.",
    421: "The service has no authentication, and the header `Host` names another machine: "
    "`misdirected_request`.",
    422: "Values are invalid or beyond a limit: `invalid_request` and others.",
    428: "The change must name the version that it is based on: `precondition_required`.",
    429: "Too many calls wait for news: `too_many_waiting`.",
    502: "A controller was lost before it answered, and the change may be stored or not: "
    "`outcome_unknown`.",
    503: "The database is away, full or closing, and nothing was stored: `unavailable`; or a probe "
    "found something else wrong: `unhealthy`.",
}
"""What each status means, for all calls alike."""


class Problem(Answer):
    """An RFC 9457 problem document; `code` says which, further fields are the values."""

    type: str = Field(description="`urn:tidegauge:` and the code.")
    title: str = Field(description="The code in words.")
    status: int = Field(description="The HTTP status; a code has exactly one.")
    code: str = Field(description="Stable name of the problem, for programs.")
    detail: str = Field(description="What happened and what to do, for people.")


def document(app: FastAPI, further: Iterable[BaseRoute]) -> dict[str, Any]:
    """Describe every call of an application, and those that are answered in front of it."""
    described = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=[*app.routes, *further],
    )
    schemas = described["components"]["schemas"]
    schemas["Problem"] = Problem.model_json_schema()
    simplify(described)
    schemas.update(COMPONENTS)
    schemas["Problem"]["example"] = UnknownStreamError("flights/departures").document()
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    described["components"]["securitySchemes"] = {
        _BEARER: {
            "type": "http",
            "scheme": "bearer",
            "description": "A token made by `tidegauge token new`, if the service has tokens.",
        }
    }
    problem = {PROBLEM_JSON: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    examples = {one.call: one for one in EXAMPLES}
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            call = f"{method.upper()} {path}"
            need = NEEDS[call]
            operation["description"] += f"\n\n{need.value}"
            if need is not Need.NOTHING:
                operation["security"] = [{_BEARER: []}]
            for status in _refusals(method, path, operation, need):
                refusal = {"description": _MEANINGS[status], "content": problem}
                operation["responses"][str(status)] = refusal
            if call in examples:
                _show(operation, examples[call])
    return described


def _refusals(method: str, path: str, operation: dict[str, Any], need: Need) -> list[int]:
    """List the statuses of the refusals that a call may answer, by what it takes."""
    names = {one["name"].lower() for one in operation.get("parameters", ())}
    depends = {
        307: path.startswith("/v1"),
        401: need is not Need.NOTHING,
        403: need not in {Need.NOTHING, Need.TOKEN} or method != "get",
        404: "{" in path,
        409: "{" in path,
        410: (method, path.rpartition("/")[2]) in {("get", "events"), ("put", "{group}")},
        412: bool(names & {"if-match", "if-none-match"}),
        415: "requestBody" in operation or method == "post",
        428: "if-match" in names,
        429: "wait_ms" in names,
        502: method != "get",
    }
    return [status for status in _MEANINGS if depends.get(status, True)]


def _show(operation: dict[str, Any], example: Example) -> None:
    values = {**NAMES, **example.query, **example.headers}
    values = {name.lower(): value for name, value in values.items()}
    for parameter in operation.get("parameters", ()):
        if parameter["name"].lower() in values:
            parameter["example"] = values[parameter["name"].lower()]
    if example.body is not None:
        _show_content(operation["requestBody"]["content"], example.body)
    answers = operation["responses"].setdefault(str(example.status), {"description": "Done."})
    if example.answer is not None:
        _show_content(answers["content"], example.answer)


def _show_content(content: dict[str, Any], example: Any) -> None:  # noqa: ANN401 (JSON)
    shown = base64.b64encode(example).decode() if isinstance(example, bytes) else example
    for media in content.values():
        media["example"] = shown
