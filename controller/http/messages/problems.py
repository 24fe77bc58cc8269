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

from tidegauge import errors
from tidegauge.json_text import show_json
from tidegauge.names import INVALID_NAME, NAME_PATTERN

PROBLEM_JSON = "application/problem+json"
_RETRY_AFTER_S = "1"
_OUT_OF_BOUNDS = {"greater_than_equal", "less_than_equal"}
_NO_OBJECT = {"dict_type", "model_attributes_type", "model_type"}
_CURES = {
    "aggregation_timeout_ms": "null waits without a limit",
    "hold_limit_ms": "null waits without a limit",
    "mark_retention_ms": "null keeps marks as long as the events",
}
"""What else can be sent where a number is out of bounds."""


def _headers(error: errors.ProblemError) -> dict[str, str]:
    """Choose the headers of an error beyond its content type."""
    headers: dict[str, str] = {}
    match error:
        case errors.UnavailableError() | errors.UnhealthyError() | errors.TooManyWaitingError():
            headers["retry-after"] = _RETRY_AFTER_S
        case errors.StandsByError():
            headers["location"] = error.location
        case errors.MethodNotAllowedError():
            headers["allow"] = "POST"  # that is so where there is no framework
        case errors.UnauthenticatedError():
            # RFC 6750 wants nothing said of a token that was not sent.
            wrong = {"missing": "", "repeated": ', error="invalid_request"'}
            said = wrong.get(error.reason, ', error="invalid_token"')
            headers["www-authenticate"] = f'Bearer realm="tidegauge"{said}'
        case errors.ForbiddenError():
            headers["www-authenticate"] = 'Bearer realm="tidegauge", error="insufficient_scope"'
        case errors.UnsupportedContentEncodingError():
            headers["accept-encoding"] = "identity"
    return headers


def dump_problem(error: errors.ProblemError) -> bytes:
    """Write the document of an error."""
    return json.dumps(error.document()).encode()


def write_problem(error: errors.ProblemError) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Write status, headers and body of an error."""
    response = problem_response(error)
    return error.status, response.raw_headers, bytes(response.body)


def problem_response(error: errors.ProblemError) -> Response:
    """Answer with an error."""
    return Response(
        dump_problem(error),
        status_code=error.status,
        media_type=PROBLEM_JSON,
        headers=_headers(error),
    )


async def send_problem(send: Send, error: errors.ProblemError) -> None:
    """Answer with an error where there is no framework."""
    status, headers, body = write_problem(error)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def invalid_request(
    error: ValidationError | RequestValidationError,
) -> errors.InvalidRequestError:
    """Return the problem that says what is wrong with each field."""
    return errors.InvalidRequestError([_field_error(one) for one in error.errors()])


def _field_error(one: Any) -> dict[str, str]:  # noqa: ANN401 (pydantic's error details)
    place: Sequence[Any] = one["loc"]
    if place and place[0] in {"body", "query", "path", "header"}:
        place = place[1:] or place
    field = ".".join(map(str, place)) or "body"
    message = one["msg"].removeprefix("Value error, ")
    if one["type"] == "extra_forbidden":
        message = "this call has no such field"
    if one["type"] in _NO_OBJECT:
        message = f"{show_json(one['input'])} is not a JSON object"
    if one["type"] in _OUT_OF_BOUNDS:
        given = one["input"]
        shown = given if isinstance(given, str) else show_json(given)
        cure = f"; {_CURES[field]}" if field in _CURES else ""
        message = f"{message}, not {shown}{cure}"
    if one.get("ctx", {}).get("pattern") == NAME_PATTERN:
        message = f"{one['input']!r} {INVALID_NAME}"
    return {"field": field, "message": message}


def install(app: FastAPI, routes: Sequence[BaseRoute]) -> None:
    """Answer every error of an application that serves these routes with its document."""

    async def answer(request: Request, error: Exception) -> Response:
        problem = problem_of(request, error)
        response = problem_response(problem)
        if (
            isinstance(error, HTTPException)
            and response.status_code == errors.MethodNotAllowedError.status
        ):
            # All methods of the path; the framework names those of one of its routes.
            methods: set[str] = set()
            for route in routes:
                if (
                    isinstance(route, Route)
                    and route.matches(request.scope)[0] is not Match.NONE
                ):
                    methods |= route.methods or set()
            response.headers["allow"] = ", ".join(sorted(methods))
        return response

    for kind in (errors.ProblemError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, answer)


def problem_of(request: Request, error: Exception) -> errors.ProblemError:
    """Return the problem that answers what a route raises; what nobody expects is a defect."""
    cause = error.__cause__ if isinstance(error, HTTPException) else error
    if isinstance(cause, errors.ProblemError):
        return cause
    if isinstance(error, RequestValidationError):
        return invalid_request(error)
    path = request.url.path
    if not isinstance(error, HTTPException):
        return errors.InternalError(f"{request.method} {path}")
    if error.status_code == errors.MethodNotAllowedError.status:
        return errors.MethodNotAllowedError(request.method, path)
    if error.status_code == errors.NotFoundError.status:
        return errors.NotFoundError(path)
    return errors.InvalidRequestError.of("body", f"cannot be read: {error.detail}")
