"""Events for people with curl: one JSON object a line."""

import base64
import binascii

import orjson
import pyarrow as pa

from tidegauge.errors import InvalidRequestError
from tidegauge.event_time import parse_event_time
from tidegauge.json_text import parse_json, show_json
from tidegauge.wire.columns import EVENT_SCHEMA

_FIELDS = {"key", "event_time", "value", "value_base64"}


def read_ndjson(body: bytes) -> pa.RecordBatch:
    """Read the events of a request with one JSON object a line; empty lines are skipped."""
    keys: list[str] = []
    times: list[int | None] = []
    values: list[bytes] = []
    for number, line in enumerate(body.split(b"\n"), start=1):
        if line.strip():
            try:
                key, time, value = _event(line)
            except ValueError as error:
                place = f"line {number}"
                raise InvalidRequestError.of(place, str(error)) from error
            keys.append(key)
            times.append(time)
            values.append(value)
    arrays = [
        pa.array(column, field.type)
        for column, field in zip((keys, times, values), EVENT_SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=EVENT_SCHEMA)


def _event(line: bytes) -> tuple[str, int | None, bytes]:
    try:
        event = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        msg = f"is not JSON: {error}"
        raise ValueError(msg) from error
    # Where nothing but keys has a colon, none of them is there twice; else check them.
    if not isinstance(event, dict) or line.count(b":") != len(event):
        event = parse_json(line)
    if not isinstance(event, dict):
        msg = 'is not an object; send {"key": …, "event_time": …, "value": …}'
        raise ValueError(msg)  # noqa: TRY004 (answered like the others)
    if unknown := event.keys() - _FIELDS:
        msg = f"has unknown fields {sorted(unknown)}; send some of {sorted(_FIELDS)}"
        raise ValueError(msg)
    if not isinstance(event.get("key"), str):
        msg = f"key is {show_json(event.get('key'))}; send a string, it routes the event"
        raise ValueError(msg)  # noqa: TRY004 (answered like the others)
    given = event.get("event_time")
    time = None if given is None else parse_event_time(given)
    return event["key"], time, _value(event)


def _value(event: dict[str, object]) -> bytes:
    if ("value" in event) == ("value_base64" in event):
        msg = "send either value or value_base64"
        raise ValueError(msg)
    value = event.get("value", event.get("value_base64"))
    if not isinstance(value, str):
        msg = f"value is {show_json(value)}; send a string, or bytes as value_base64"
        raise ValueError(msg)  # noqa: TRY004 (answered like the others)
    if "value" in event:
        return value.encode()
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        msg = f"value_base64 is not base64: {error}"
        raise ValueError(msg) from error
