"""Reading requests and writing answers where no framework is in between."""

from urllib.parse import parse_qs

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from controller.http.messages.headers import check_json
from tidegauge.errors import BodyTooLargeError, InvalidRequestError, MethodNotAllowedError


def check_post(scope: Scope) -> None:
    """Refuse other methods than POST, and bodies that do not say that they are plain JSON."""
    if scope["method"] != "POST":
        raise MethodNotAllowedError(scope["method"], scope["path"])
    check_json(scope["headers"])


def read_query(query: bytes, known: set[str]) -> dict[str, str]:
    """Read query parameters, and refuse unknown ones."""
    values = parse_qs(query.decode("latin-1"), keep_blank_values=True)
    for name in values.keys() - known:
        message = f"this call has no such parameter; it has {sorted(known)}"
        raise InvalidRequestError.of(name, message)
    return {name: given[-1] for name, given in values.items()}


async def read_body(receive: Receive, limit: int, setting: str = "max_body_bytes") -> bytes:
    """Read a body, unless it is larger than the limit, which this setting sets.

    Raises `ClientDisconnect` if it did not come to its end: what came may seem complete.
    """
    parts: list[bytes] = []
    size, more = 0, True
    while more and size <= limit:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        part = message.get("body", b"")
        parts.append(part)
        size += len(part)
        more = message.get("more_body", False)
    if size > limit:
        raise BodyTooLargeError(limit, setting)
    return b"".join(parts)


async def send_json(send: Send, body: bytes) -> None:
    """Answer with success."""
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
