"""The OpenAPI document: what FastAPI finds out, problems as they are, and the examples."""

import base64
from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import Field
from starlette.routing import BaseRoute

from controller.access import NEEDS, Need
from controller.http.examples import EXAMPLES, Example
from controller.http.messages.problems import PROBLEM_JSON
from controller.http.messages.refusals import MEANINGS, refusals_of
from tidegauge.errors import UnknownStreamError
from tidegauge.wire.values import Answer

_BEARER = "bearer"


class Problem(Answer):
    """An RFC 9457 problem document; `code` says which, further fields are the values."""

    type: str = Field(description="`urn:tidegauge:` and the code.")
    title: str = Field(description="The code in words.")
    status: int = Field(description="The HTTP status; a code has exactly one.")
    code: str = Field(description="Stable; programs decide by it.")
    detail: str = Field(description="What happened and what to do, for a person.")


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
    examples = {(one.route, one.method.lower()): one for one in EXAMPLES}
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            need = NEEDS[f"{method.upper()} {path}"]
            _describe_need(operation, need)
            _describe_problems(operation, refusals_of(method, path, operation, need))
            if (path, method) in examples:
                _show(operation, examples[path, method])
    return described


def _describe_problems(operation: dict[str, Any], statuses: Iterable[int]) -> None:
    content = {PROBLEM_JSON: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for status in statuses:
        answer = {"description": MEANINGS[status], "content": content}
        operation["responses"][str(status)] = answer


def _describe_need(operation: dict[str, Any], need: Need) -> None:
    operation["description"] += f"\n\n{need.value}"
    if need is not Need.NOTHING:
        operation["security"] = [{_BEARER: []}]


def _show(operation: dict[str, Any], example: Example) -> None:
    values = {**example.path, **example.query, **example.headers}
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
