"""Every error as an RFC 9457 problem document."""

import json
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Send

from controller.http.forwarding.peers import ASKED_AGAIN, NOT_HOLDER
from controller.http.messages.head_calls import with_head
from controller.streams.lease import MovedError
from tidegauge.errors import (
    BodyTooLargeError,
    ForbiddenError,
    InternalError,
    InvalidRequestError,
    MethodNotAllowedError,
    NotFoundError,
    ProblemError,
    TooManyWaitingError,
    UnauthenticatedError,
    UnavailableError,
    UnhealthyError,
    UnsupportedContentEncodingError,
)
from tidegauge.json_text import show_json
from tidegauge.names import INVALID_NAME, NAME_PATTERN

PROBLEM_JSON = "application/problem+json"
_RETRY_AFTER_S = "1"
_OUT_OF_BOUNDS = {"greater_than_equal", "less_than_equal"}
_NO_OBJECT = {"dict_type", "model_attributes_type", "model_type"}
_CURES = {
    "aggregation_timeout_ms": "null waits for ever",
    "mark_retention_ms": "null keeps marks as long as the events",
}
"""What else can be sent where a number is out of bounds."""


def problem_headers(error: ProblemError) -> dict[str, str]:
    """Choose the headers of an error beyond its content type."""
    if isinstance(error, UnavailableError | UnhealthyError | TooManyWaitingError):
        return {"retry-after": _RETRY_AFTER_S}
    if isinstance(error, MethodNotAllowedError):
        return {"allow": "POST"}  # that is so where there is no framework
    if isinstance(error, UnauthenticatedError | ForbiddenError):
        return {"www-authenticate": _challenge(error)}
    if isinstance(error, UnsupportedContentEncodingError):
        return {"accept-encoding": "identity"}
    if isinstance(error, BodyTooLargeError):
        return {"connection": "close"}  # the rest of the body will not be read
    return {}


def _challenge(error: UnauthenticatedError | ForbiddenError) -> str:
    """Say what RFC 6750 wants said: nothing is wrong with a token that was not sent."""
    if isinstance(error, ForbiddenError):
        return 'Bearer realm="tidegauge", error="insufficient_scope"'
    if error.reason == "missing":
        return 'Bearer realm="tidegauge"'
    if error.reason == "repeated":
        return 'Bearer realm="tidegauge", error="invalid_request"'
    return 'Bearer realm="tidegauge", error="invalid_token"'


def dump_problem(error: ProblemError) -> bytes:
    """Write the document of an error."""
    return json.dumps(error.document()).encode()


def write_problem(error: ProblemError) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Write status, headers and body of an error."""
    body = dump_problem(error)
    headers = {
        "content-type": PROBLEM_JSON,
        "content-length": str(len(body)),
        **problem_headers(error),
    }
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    return error.status, encoded, body


def problem_response(error: ProblemError) -> Response:
    """Answer with an error."""
    return Response(
        dump_problem(error),
        status_code=error.status,
        media_type=PROBLEM_JSON,
        headers=problem_headers(error),
    )


async def send_problem(send: Send, error: ProblemError) -> None:
    """Answer with an error where there is no framework."""
    status, headers, body = write_problem(error)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def invalid_request(error: ValidationError | RequestValidationError) -> InvalidRequestError:
    """Say what is wrong with each field."""
    return InvalidRequestError([_field_error(one) for one in error.errors()])


def _field_error(one: Any) -> dict[str, str]:  # noqa: ANN401 (pydantic's error details)
    place: Sequence[Any] = one["loc"]
    if place and place[0] in {"body", "query", "path", "header"}:
        place = place[1:] or place
    field = ".".join(map(str, place)) or "body"
    message = one["msg"].removeprefix("Value error, ")
    if one["type"] == "extra_forbidden":
        message = "this call has no such field"
    if one["type"] in _NO_OBJECT:
        message = f"{show_json(one['input'])} is no JSON object"
    if one["type"] in _OUT_OF_BOUNDS:
        given = one["input"]
        shown = given if isinstance(given, str) else show_json(given)
        message = f"{message}, not {shown}{_cure(field)}"
    if one.get("ctx", {}).get("pattern") == NAME_PATTERN:
        message = f"{one['input']!r} {INVALID_NAME}"
    return {"field": field, "message": message}


def _cure(field: str) -> str:
    return f"; {_CURES[field]}" if field in _CURES else ""


def install(app: FastAPI, routes: Sequence[BaseRoute]) -> None:
    """Answer every error of an application that serves these routes with its document."""

    async def answer(request: Request, error: Exception) -> Response:
        problem = problem_of(request, error)
        response = problem_response(problem)
        if isinstance(problem, MovedError) and request.method in ASKED_AGAIN:
            response.headers[NOT_HOLDER.decode()] = "1"
        if (
            isinstance(error, HTTPException)
            and response.status_code == MethodNotAllowedError.status
        ):
            response.headers["allow"] = _allowed(routes, request)
        return response

    for kind in (ProblemError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, answer)


def problem_of(request: Request, error: Exception) -> ProblemError:
    """Tell which problem answers what a route raises; what nobody expects is a defect."""
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, RequestValidationError):
        return invalid_request(error)
    if isinstance(error, HTTPException):
        return _of_framework(request, error)
    return InternalError(f"{request.method} {request.url.path}")


def _allowed(routes: Sequence[BaseRoute], request: Request) -> str:
    """List all methods of a path; the framework names those of one of its routes."""
    methods: set[str] = set()
    for route in routes:
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE:
            methods |= route.methods or set()
    return ", ".join(sorted(with_head(methods)))


def _of_framework(request: Request, error: HTTPException) -> ProblemError:
    path = request.url.path
    if isinstance(error.__cause__, ProblemError):
        return error.__cause__
    if error.status_code == MethodNotAllowedError.status:
        return MethodNotAllowedError(request.method, path)
    if error.status_code == NotFoundError.status:
        return NotFoundError(path)
    return InvalidRequestError.of("body", f"cannot be read: {error.detail}")
