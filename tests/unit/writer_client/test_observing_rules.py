"""What an observer reads of a record: whose it is, when it happened, how its time is guessed."""

from datetime import timedelta

import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.names import check_name
from writer_client.observing import rules
from writer_client.observing.names import writer_of
from writer_client.strategies import Now

_VALUES = st.none() | st.binary() | st.text("axy-_.0").map(str.encode)


def _record(
    value: bytes | None = None,
    headers: list[tuple[str, str | bytes | None]] | None = None,
    timestamp: tuple[int, int] = (1, 5_000),
) -> Message:
    return Message(value=value, headers=headers, timestamp=timestamp)


@given(_VALUES, _VALUES, st.integers(0, 99_999), st.integers(0, 99_999))
def test_every_value_and_partition_has_a_valid_writer_of_its_own(
    one: bytes | None, other: bytes | None, here: int, there: int
) -> None:
    names = {check_name(writer_of(one, here)), check_name(writer_of(other, there))}
    assert len(names) == len({(one, here), (other, there)})


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (b"api-1", "api-1.3"),
        (b"a_b.c", "a_b.c.3"),
        ("Zürich 7".encode(), "x--Z_c3_bcrich_207.3"),
        (b"x--none", "x--x--none.3"),
        (b"_x", "x--_5fx.3"),
        (b"", "x--.3"),
        (None, "x--_none.3"),
    ],
)
def test_a_value_is_its_writers_name_where_it_can_be(value: bytes | None, name: str) -> None:
    assert writer_of(value, 3) == name


def test_a_long_value_is_named_by_its_hash() -> None:
    assert len(writer_of(b"v" * 200, 3)) == 202
    assert writer_of(b"v" * 201, 3).startswith("y--7bfb")
    assert writer_of(b"v" * 201, 3) != writer_of(b"v" * 202, 3)


@pytest.mark.parametrize(
    ("where", "record", "time"),
    [
        ("timestamp", _record(), 5_000),
        (
            "header:t",
            _record(headers=[("t", b"1"), ("t", b"1700000000000")]),
            1_700_000_000_000,
        ),
        ("header:t", _record(headers=[("t", b"1970-01-01T00:00:01Z")]), 1_000),
        ("json:/a/1/b~1c", _record(b'{"a": [0, {"b/c": 7}]}'), 7),
        ("json:/at", _record(b'{"at": "1970-01-01T00:00:01.5Z"}'), 1_500),
    ],
)
def test_a_time_is_read_where_it_is(where: str, record: Message, time: int) -> None:
    assert rules.parse_time_of(where)(record) == time


@pytest.mark.parametrize(
    ("where", "record"),
    [
        ("timestamp", _record(timestamp=(0, -1))),
        ("timestamp", _record(timestamp=(1, -1))),
        ("header:t", _record()),
        ("header:t", _record(headers=[("t", None)])),
        ("header:t", _record(headers=[("t", b"\xff")])),
        ("header:t", _record(headers=[("t", b"noon")])),
        ("json:/a", _record(None)),
        ("json:/a", _record(b"no json")),
        ("json:/a", _record(b"[" * 100_000)),
        ("json:/a", _record(b'{"a": 1.5}')),
        ("json:/a", _record(b'{"b": 1}')),
        ("json:/a", _record(b"[1]")),
        ("json:/a/b", _record(b'{"a": 1}')),
    ],
)
def test_a_time_that_cannot_be_read_is_no_time(where: str, record: Message) -> None:
    with pytest.raises(ValueError):
        rules.parse_time_of(where)(record)


_RESOLVED = b'{"resolved": "1685718676799158675.0000000003"}'
_WATERMARK = b'{"type": "TIDB_WATERMARK", "_tidb": {"watermarkTs": 429918007904436226}}'


@pytest.mark.parametrize(
    ("where", "value", "time"),
    [
        ("cockroachdb", _RESOLVED, 1_685_718_676_799),
        ("cockroachdb", b'{"__crdb__": ' + _RESOLVED + b"}", 1_685_718_676_799),
        ("cockroachdb", b'{"after": null, "updated": "1685718676799158675.0000000000"}', None),
        ("ticdc", _WATERMARK, 1_640_007_049_196),
        ("ticdc", b'{"type": "INSERT", "_tidb": {"commitTs": 429918007904436226}}', None),
        ("json:/a", b'{"a": 5999}', 5_999),
        ("json:/a", b'{"a": "1970-01-01T00:00:05.9999Z"}', 5_999),
        ("json:/a:ms", b'{"a": "5999"}', 5_999),
        ("json:/a:us", b'{"a": 5999999}', 5_999),
        ("json:/a:ns", b'{"a": 5999999999}', 5_999),
        ("json:/a:s", b'{"a": 5.9999}', 5_999),
        ("json:/a:s", b'{"a": -1.0001}', -1_001),
        ("json:/a:b:ms", b'{"a:b": 7}', 7),
        ("json:/a", b'{"a": null}', None),
        ("json:/a", b'{"b": 1}', None),
        ("json:/a", b"no json", None),
        ("json:/a", b"", None),
        ("json:/a", None, None),
    ],
)
def test_a_promise_is_read_where_it_is_and_rounded_down(
    where: str, value: bytes | None, time: int | None
) -> None:
    assert rules.parse_promises(where)[0](_record(value)) == time


@pytest.mark.parametrize(
    ("where", "value", "problem"),
    [
        ("cockroachdb", b'{"resolved": true}', "true is not a time in hlc"),
        ("ticdc", b'{"_tidb": {"watermarkTs": "now"}}', "'now' is not a time in tso"),
        ("json:/a:s", b'{"a": 1e9}', "'1e9' is not a time in s"),
        ("json:/a:s", b'{"a": 9223372036854776}', "does not fit into a signed 64-bit"),
        ("json:/a", b'{"a": 1.5}', "'1.5' is not an event time"),
        ("json:/a", b'{"a": {}}', "{} is not an event time"),
    ],
)
def test_a_promise_that_cannot_be_read_is_no_event(
    where: str, value: bytes, problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        rules.parse_promises(where)[0](_record(value))


def test_the_time_of_an_event_is_in_the_unit_of_the_promises() -> None:
    _, unit = rules.parse_promises("cockroachdb")
    row = _record(b'{"updated": "1685718676799158675.0000000003"}')
    assert rules.parse_time_of("json:/updated", unit)(row) == 1_685_718_676_799


def test_spans_and_strategies_are_what_they_say() -> None:
    assert rules.parse_limit("90s") == timedelta(seconds=90)
    assert rules.parse_limit("never") is None
    assert rules.parse_guess("lag:1ms").make().time(Now(10, 0)) == 9
    assert [rules.parse_guess(text).needs_end for text in ("lag:1d", "bounded:1h")] == [
        True,
        False,
    ]
