"""Schemas in a form that generators of clients can read.

They make a class of every union without a name, and many make one that does not compile: of a map
and null, of a date, with a default or with bounds. So a union of an integer and text refers to a
component and says the rest in words, and null is a second type instead of an alternative. All
integers have 64 bits: the usual 32 are too few for times.
"""

from typing import Any

from tidegauge.wire.values import DECIMAL_SCHEMA, TIME_SCHEMA

_PLACE = "#/components/schemas/"
_NULL = {"type": "null"}
_LISTED = {"enum", "const"}
_INT64 = {"type": "integer", "format": "int64"}
_OFFSETS = {"type": "object", "additionalProperties": {"$ref": f"{_PLACE}Int64"}}
COMPONENTS: dict[str, dict[str, Any]] = {
    "Int64": {
        "description": "An integer of 64 bits: a JSON integer or a decimal string.",
        "anyOf": [_INT64, DECIMAL_SCHEMA],
    },
    "EventTime": {
        "description": "Event time: ms as a JSON integer or a decimal string, or RFC 3339 with a zone.",
        "anyOf": [_INT64, {"type": "string"}],
    },
    "Position": {"description": "Segment number to offset.", **_OFFSETS},
}
"""What simplified schemas refer to."""


def simplify(schema: Any) -> None:  # noqa: ANN401 (JSON)
    """Bring a schema, and all that it contains, into this form."""
    if isinstance(schema, list):
        for one in schema:
            simplify(one)
    if not isinstance(schema, dict):
        return
    if DECIMAL_SCHEMA in schema.get("anyOf", ()):
        _name_union(schema)
    elif schema.get("type") == "integer":
        schema["format"] = "int64"
    for one in schema.values():
        simplify(one)
    _merge_null(schema)
    if _OFFSETS.items() <= schema.items():
        _refer(schema, "Position")


def _name_union(schema: dict[str, Any]) -> None:
    """Refer to an integer that may be sent as text."""
    alternatives = schema.pop("anyOf")
    integer = next(one for one in alternatives if one["type"] == "integer")
    bounds = integer.get("minimum"), integer.get("maximum")
    words = [schema.get("description"), _in_words(*bounds, schema.pop("default", None))]
    if any(words):
        schema["description"] = " ".join(filter(None, words))
    _refer(schema, "EventTime" if TIME_SCHEMA in alternatives else "Int64")
    if _NULL in alternatives:
        schema["anyOf"] = [{"$ref": schema.pop("$ref")}, _NULL]


def _in_words(least: float | None, most: float | None, default: int | None) -> str:
    said = []
    if least is not None:
        said.append(f"{least:.0f} or more" if most is None else f"{least:.0f} to {most:.0f}")
    if default is not None:
        said.append(f"{default} unless given")
    return f"({'; '.join(said)}.)" if said else ""


def _merge_null(schema: dict[str, Any]) -> None:
    """Write null as a type, but for values that are listed."""
    match schema.get("anyOf"):
        case [{"type": str(kind)} as one, {"type": "null"}] if not one.keys() & _LISTED:
            del schema["anyOf"]
            schema.update({**one, **schema, "type": [kind, "null"]})


def _refer(schema: dict[str, Any], name: str) -> None:
    """Replace the union by a reference to a component."""
    for one in ("title", "type", "additionalProperties"):
        schema.pop(one, None)
    schema["$ref"] = f"{_PLACE}{name}"
