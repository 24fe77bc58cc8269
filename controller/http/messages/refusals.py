"""Which refusals each call may answer, found out from what it takes."""

from typing import Any

from controller.access import Need

MEANINGS = {
    400: "What came is no HTTP: `malformed_request`.",
    401: "No valid token was sent: `unauthenticated`.",
    403: "The token is not enough: `forbidden`.",
    404: "What the path names is not there; the code says what is missing.",
    408: "Address and headers were begun and did not come to their end: `head_timeout`.",
    409: "It conflicts with what is stored; the code says how.",
    412: "Somebody was faster, or it is there already: `precondition_failed`.",
    413: "The body is beyond the limit of the service: `body_too_large`.",
    415: "The body is of another content type, or does not say of which (or "
    "there is none, and a page of another site may have sent the call): "
    "`unsupported_media_type`; or it is compressed: `unsupported_content_encoding`.",
    421: "Without tokens, who calls by a name that need not be this machine's is not answered: "
    "`misdirected_request`.",
    422: "Values that cannot be, or are beyond a limit: `invalid_request` and others.",
    428: "A change must name the version that it is based on: `precondition_required`.",
    429: "As many calls wait for news as may: `too_many_waiting`.",
    431: "Address and headers are beyond the limit of the service: `head_too_large`.",
    502: "Who was to do it was lost on the way, and it may be done or not: `outcome_unknown`.",
    503: "The database is away, full or closing, and nothing was stored: `unavailable`; or "
    "something else is wrong, to who probes: `unhealthy`.",
}
"""Status to what it says, for all calls alike."""

_WITHOUT_ROLES = {Need.NOTHING, Need.TOKEN}


def refusals_of(method: str, path: str, operation: dict[str, Any], need: Need) -> list[int]:
    """List the statuses of the refusals that a call may answer."""
    names = {one["name"].lower() for one in operation.get("parameters", ())}
    has_body = "requestBody" in operation
    may = {
        400: True,
        401: need is not Need.NOTHING,
        403: need not in _WITHOUT_ROLES,
        404: "{" in path,
        408: True,
        409: "{" in path,
        412: bool(names & {"if-match", "if-none-match"}),
        413: True,
        415: has_body or method == "post",
        421: True,
        422: True,
        428: "if-match" in names,
        429: "wait_ms" in names,
        431: True,
        502: method != "get",
        503: True,
    }
    return [status for status, is_possible in may.items() if is_possible]
