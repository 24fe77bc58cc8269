"""What the log says of a request."""

import re

from starlette.types import Scope

from controller.http.messages.head_calls import method_of

_PLACE = re.compile(r"/v1/streams/([^/]+/[^/]+)(?:/writers/([^/]+))?")


def request_fields(scope: Scope) -> dict[str, str]:
    """Name its method and its path, and the stream and the writer in it."""
    path: str = scope["path"]
    fields = {"method": method_of(scope), "path": path}
    place = _PLACE.match(path)
    if place is not None:
        fields["stream"] = place[1]
        if place[2] is not None:
            fields["writer"] = place[2]
    return fields
