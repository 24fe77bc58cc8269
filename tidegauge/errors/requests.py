"""Refusals of a request as such, and failures of the service."""

from tidegauge.errors.base import ProblemError, problem, shortened

_MOST_ERRORS = 100


@problem("not_found", 404)
class NotFoundError(ProblemError):
    """There is no such call."""

    path: str

    def __post_init__(self) -> None:
        self.path = shortened(self.path)

    @property
    def detail(self) -> str:
        return f"there is nothing at {self.path}; /docs lists every call"


@problem("method_not_allowed", 405)
class MethodNotAllowedError(ProblemError):
    """The path is there, but not with this method."""

    method: str
    path: str

    def __post_init__(self) -> None:
        self.path = shortened(self.path)

    @property
    def detail(self) -> str:
        return f"{self.path} has no {self.method}; /docs lists every call"


@problem("precondition_failed", 412)
class PreconditionFailedError(ProblemError):
    """Somebody was faster: the entity tag is no longer the newest."""

    etag: str

    @property
    def detail(self) -> str:
        return f"the newest version is {self.etag}; read it and apply the change again"


@problem("precondition_required", 428)
class PreconditionRequiredError(ProblemError):
    """A change that must name the version it is based on."""

    header: str

    @property
    def detail(self) -> str:
        return f"send {self.header} with the ETag of the version that you read"


@problem("body_too_large", 413)
class BodyTooLargeError(ProblemError):
    """A request beyond the limit of the service."""

    limit_bytes: int
    setting: str = "max_body_bytes"

    @property
    def detail(self) -> str:
        what, cure = "body", "send it in parts"
        if self.setting == "max_report_bytes":
            what, cure = "report", "name only the segments that changed, or raise that"
        return f"the {what} is larger than {self.limit_bytes} bytes ({self.setting}); {cure}"


@problem("head_too_large", 431)
class HeadTooLargeError(ProblemError):
    """A request whose address and headers are beyond the limit of the service."""

    limit_bytes: int

    @property
    def detail(self) -> str:
        return f"address and headers are larger than {self.limit_bytes} bytes (max_head_bytes)"


@problem("head_timeout", 408)
class HeadTimeoutError(ProblemError):
    """A request whose head was begun and not ended in time."""

    timeout_ms: int

    @property
    def detail(self) -> str:
        return (
            f"address and headers were not whole after {self.timeout_ms} ms (head_timeout_ms); "
            "send them at once"
        )


@problem("misdirected_request", 421)
class MisdirectedRequestError(ProblemError):
    """A host that a service without tokens does not answer for.

    A page of another site can have its own name mean this machine, and so reach what listens on
    it; what it cannot do is to send another name than its own.
    """

    host: str

    def __post_init__(self) -> None:
        self.host = shortened(self.host)

    @property
    def detail(self) -> str:
        return (
            f"the header `Host` says {self.host!r}, and a service without tokens answers for "
            "localhost and 127.0.0.1 only; call it so, or serve with --tokens FILE (or with "
            "--insecure, if something else keeps strangers out)"
        )


@problem("malformed_request", 400)
class MalformedRequestError(ProblemError):
    """Something that is not HTTP."""

    @property
    def detail(self) -> str:
        return "this is no HTTP/1.1; the service speaks TLS only with a certificate"


@problem("unsupported_media_type", 415)
class UnsupportedMediaTypeError(ProblemError):
    """A content type that the call does not take."""

    content_type: str
    expected: str

    def __post_init__(self) -> None:
        self.content_type = shortened(self.content_type)

    @property
    def detail(self) -> str:
        given = (
            f"content type {self.content_type!r}" if self.content_type else "no content type"
        )
        return f"{given}: send the header `Content-Type: {self.expected}`"


@problem("unsupported_content_encoding", 415)
class UnsupportedContentEncodingError(ProblemError):
    """A compressed body; no call takes one."""

    content_encoding: str

    def __post_init__(self) -> None:
        self.content_encoding = shortened(self.content_encoding)

    @property
    def detail(self) -> str:
        return (
            f"content encoding {self.content_encoding!r}: send the body as it is, without the "
            "header `Content-Encoding`"
        )


@problem("invalid_request", 422)
class InvalidRequestError(ProblemError):
    """Values that cannot be, whatever is stored."""

    errors: list[dict[str, str]]

    def __post_init__(self) -> None:
        """Say no more than helps: a body of megabytes must not come back as it was."""
        self.errors = [
            {name: shortened(text) for name, text in one.items()}
            for one in self.errors[:_MOST_ERRORS]
        ]

    @property
    def detail(self) -> str:
        return "; ".join(f"{one['field']}: {one['message']}" for one in self.errors)

    @classmethod
    def of(cls, field: str, message: str) -> "InvalidRequestError":
        """Refuse one field."""
        return cls([{"field": field, "message": message}])


@problem("unavailable", 503)
class UnavailableError(ProblemError):
    """The database is away, full or closing; nothing was stored. Try again."""

    reason: str

    @property
    def detail(self) -> str:
        return f"nothing was stored: {self.reason}; try again later"


@problem("unhealthy", 503)
class UnhealthyError(ProblemError):
    """The answer to a probe while something is wrong."""

    reasons: list[str]

    @property
    def detail(self) -> str:
        return "; ".join(self.reasons)


@problem("outcome_unknown", 502)
class OutcomeUnknownError(ProblemError):
    """Who was to do it was lost before it answered; it may be done or not."""

    reason: str

    @property
    def detail(self) -> str:
        return (
            f"whether it was stored is not known: {self.reason}; look, or repeat it where "
            "repeating does no harm"
        )


@problem("internal_error", 500)
class InternalError(ProblemError):
    """A defect of the service; its log has the traceback."""

    request: str

    @property
    def detail(self) -> str:
        return f"{self.request} failed by a defect of the service; its log says why"
