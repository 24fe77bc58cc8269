"""Values that more than one message carries: times, offsets, positions, names."""

from typing import Annotated, Any, NamedTuple, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    PlainValidator,
    StringConstraints,
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, ErrorDetails, PydanticKnownError, core_schema

from tidegauge.event_time import parse_event_time
from tidegauge.names import NAME_PATTERN
from tidegauge.positions import read_integer, read_position

DECIMAL_SCHEMA = {"type": "string", "pattern": "^-?[0-9]{1,19}$"}
"""Of an integer that is sent as text."""
TIME_SCHEMA = {"type": "string", "format": "date-time"}
_INTEGER_OR_TEXT = [{"type": "integer"}, DECIMAL_SCHEMA]


Integer = Annotated[
    int, PlainValidator(read_integer), WithJsonSchema({"anyOf": _INTEGER_OR_TEXT})
]
"""A 64-bit integer, sent as a JSON integer or a decimal string."""


class Between(NamedTuple):
    """The bounds of an `Integer`, both taken; pydantic's own are not in its schema."""

    least: int
    most: int | None = None

    def check(self, number: int) -> int:
        """Refuse what is out of bounds."""
        if number < self.least:
            raise PydanticKnownError("greater_than_equal", {"ge": self.least})
        if self.most is not None and number > self.most:
            raise PydanticKnownError("less_than_equal", {"le": self.most})
        return number

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Check after it was read."""
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Return the bounds of what is sent as an integer."""
        integer, text = handler(schema)["anyOf"]
        bounds = {"minimum": self.least}
        if self.most is not None:
            bounds["maximum"] = self.most
        return {"anyOf": [{**integer, **bounds}, text]}


Incarnation = Annotated[Integer, Between(0)]
"""Which process speaks in a writer's name; 0 of one that never registered."""

EventTime = Annotated[
    int,
    PlainValidator(parse_event_time),
    WithJsonSchema({"anyOf": [*_INTEGER_OR_TEXT, TIME_SCHEMA]}),
]
"""Event time in ms: a JSON integer, a decimal string or RFC 3339 with a zone."""

WirePosition = Annotated[
    dict[int, int],
    PlainValidator(read_position),
    # without it, a plain validator makes pydantic check the keys after they became strings
    PlainSerializer(lambda position: position, return_type=dict[int, int]),
    WithJsonSchema({"type": "object", "additionalProperties": {"anyOf": _INTEGER_OR_TEXT}}),
]
"""Segment number to offset, both as integers or decimal strings."""

Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
"""ASCII letters, digits, ``-``, ``_`` and ``.``, the first a letter or digit, at most 255."""


class Request(BaseModel):
    """What a caller sends; a field that the call does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def of_settings(cls, **settings: Any) -> Self:  # noqa: ANN401 (fields of the message)
        """Make the message that a program asks for.

        Raises
        ------
        ValueError
            If a setting is unknown, or has a value that it cannot have; names both, and what can be.
        """
        try:
            return cls(**settings)
        except ValidationError as error:
            wrong = [cls._describe(problem) for problem in error.errors()]
            raise ValueError("; ".join(wrong)) from None

    @classmethod
    def _describe(cls, error: ErrorDetails) -> str:
        reason = error["msg"].removeprefix("Value error, ")
        if error["type"] == "extra_forbidden":
            reason = (
                f"there is no such setting; there are {', '.join(sorted(cls.model_fields))}"
            )
        return f"{'.'.join(map(str, error['loc']))}={error['input']!r}: {reason}"


class Answer(BaseModel):
    """What the service sends; clients ignore fields that they do not know."""

    model_config = ConfigDict(extra="ignore", frozen=True)
