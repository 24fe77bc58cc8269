"""Checks of headers: the name that is called, the kind of a body, its size."""

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import ip_address

from starlette.types import Scope

from tidegauge import errors

JSON = "application/json"
_EMPTY = b"0"
_UNCODED = {"", "identity"}
_OF_FORMS = {"text/plain", "application/x-www-form-urlencoded", "multipart/form-data"}
_OTHER_PAGES = {b"cross-site", b"same-site"}

Headers = Iterable[tuple[bytes, bytes]]


def check_host(headers: Headers, names: tuple[str, ...] | None = None) -> None:
    """Refuse a call by a name that need not be this machine's; old tools send none.

    ``names`` are of a service that anybody may ask, by whatever name: only a browser is refused
    there, unless it calls by an address, by one of these, or one of them is ``*``. It sends
    ``Accept-Language``, which a page may change but not leave out.

    A browser lets a page talk to the site that it came from. If its author has that name mean
    127.0.0.1 (DNS rebinding), the page talks to what listens there; but its browser goes on to send
    the name, which shows where it comes from if nobody is asked for a token. Starlette's
    `TrustedHostMiddleware` knows no addresses, refuses calls without a name, and answers no problem document.
    """
    is_checked, refused = names is None, None
    for name, value in headers:
        if name == b"host" and not _is_accepted(value, names):
            refused = value
        elif name == b"accept-language":
            is_checked = True
    if is_checked and refused is not None:
        raise errors.MisdirectedRequestError(refused.decode("latin-1"))


def check_origin(scope: Scope) -> None:
    """Refuse a page of another origin that would change something.

    Browsers name the origin with every call that may; older ones do not say whose page it is. A
    proxy that speaks TLS has another scheme than its service: there a browser has to say it.
    """
    if scope["method"] == "GET":
        return
    given = dict(scope["headers"])
    origin = given.get(b"origin")
    if origin is None or given.get(b"sec-fetch-site") == b"same-origin":
        return
    if origin != b"%b://%b" % (scope["scheme"].encode(), given.get(b"host", b"")):
        raise errors.ForeignOriginError(origin.decode("latin-1"))


@lru_cache(maxsize=64)
def _is_accepted(host: bytes, names: tuple[str, ...] | None) -> bool:
    """Return whether a name, with or without a port, is one of this machine whoever resolves it.

    With further names, any address is, too: nobody can make it mean another machine.
    """
    name = host.decode("latin-1").lower()
    name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
    try:
        return name == "localhost" or ip_address(name).is_loopback or names is not None
    except ValueError:
        return names is not None and (name in names or "*" in names)


def check_announced(scope: Scope, limit: int, setting: str = "max_body_bytes") -> None:
    """Refuse a body that is announced to be larger than the limit, before any of it is read."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value) > limit:
            raise errors.BodyTooLargeError(limit, setting)


def check_json(headers: Headers) -> None:
    """Refuse a body that does not say that it is JSON, or is compressed; no body need say what it is.

    A browser lets any page send bodies that say nothing; those that say JSON it asks about.
    """
    given: bytes | None = None
    encoding = b""
    has_body = False
    for name, value in headers:
        if name == b"content-type":
            given = value if given is None else given
        elif name == b"transfer-encoding" or (name == b"content-length" and value != _EMPTY):
            has_body = True
        elif name == b"content-encoding":
            encoding += b"," + value
    if has_body:
        check_media_type((given or b"").decode("latin-1"), JSON)
        if encoding:
            check_encoding(encoding.decode("latin-1"))


def check_page(headers: Headers) -> None:
    """Refuse what a browser may have sent for a page of another site, without asking first.

    Where no body is needed, such a page has to say that it is JSON all the same: then its browser
    asks. ``Sec-Fetch-Site`` says whose page it is, also behind a proxy that speaks TLS; to an address
    without TLS, browsers send ``Origin`` alone.
    """
    given, page, origin, host = "", b"", b"", b""
    for name, value in headers:
        if name == b"content-type":
            given = given or value.decode("latin-1")
        elif name == b"sec-fetch-site":
            page = value
        elif name == b"origin":
            origin = value
        elif name == b"host":
            host = value
    is_foreign = page in _OTHER_PAGES if page else origin not in (b"", b"http://" + host)
    if _essence(given) in _OF_FORMS or (not given and is_foreign):
        raise errors.UnsupportedMediaTypeError(given, JSON)


def check_media_type(given: str, expected: str) -> None:
    """Refuse a content type, whatever its parameters and its case, that is another one."""
    if not has_media_type(given, expected):
        raise errors.UnsupportedMediaTypeError(given, expected)


def has_media_type(given: str, expected: str) -> bool:
    """Return whether a content type is this one, whatever its parameters and its case."""
    return given == expected or _essence(given) == expected


def _essence(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def check_encoding(given: str) -> None:
    """Refuse a body that says that it is compressed, by one of several values or headers."""
    for one in given.split(","):
        if one.strip().lower() not in _UNCODED:
            raise errors.UnsupportedContentEncodingError(one.strip())
