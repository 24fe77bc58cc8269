"""What is refused at once, and the text that says what to do: a call and its text."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Producer

from tidegauge.errors import TidegaugeError
from writer_client import TimeReporter, Writer
from writer_client.kafka import NotingProducer
from writer_client.observing import rules
from writer_client.strategies import (
    BoundedOutOfOrderness,
    LatenessQuantile,
    MonotonousTimestamps,
    Outstanding,
    TimeLag,
    WithIdleness,
)

NEGATIVE, HALF_A_SECOND = timedelta(milliseconds=-1), timedelta(seconds=0.5)
PLACE = ("http://here", "shop/orders", "api-1")


def _writer(**options: Any) -> Writer:
    return Writer(*PLACE, **options)


def _produce(**settings: Any) -> NotingProducer:
    """Note the time of a producer that was made with these settings."""
    return NotingProducer(Producer({}), *PLACE, settings=settings)


REFUSED: list[tuple[Callable[[], object], str]] = [
    (partial(rules.parse_by, "headers:x"), "write partition, key or header:NAME"),
    (partial(rules.parse_by, "header:"), "write partition, key or header:NAME"),
    (partial(rules.parse_time_of, "json:a"), "write timestamp, header:NAME or json:/path"),
    (partial(rules.parse_promises, "debezium"), "write cockroachdb, ticdc or json:/path"),
    (partial(rules.parse_promises, "json:a"), "write cockroachdb, ticdc or json:/path"),
    (partial(rules.parse_promises, "json:/a:min"), "json:/path:us, of ms, us, ns, s, hlc, tso"),
    (partial(rules.parse_guess, "lag"), "'' is not a length of time"),
    (partial(rules.parse_guess, "lag:5"), "'5' is not a length of time"),
    (partial(rules.parse_guess, "bounded:-5m"), "'-5m' is not a length of time"),
    (partial(rules.parse_guess, "quantile:1"), "'1' is not a quantile"),
    (partial(rules.parse_guess, "quantile:most"), "'most' is not a quantile"),
    (partial(rules.parse_guess, "exact"), "write lag:5m, bounded:5m or quantile:0.999"),
    (partial(rules.parse_limit, "0s"), "write never to let none leave"),
    (partial(rules.parse_limit, "soon"), "'soon' is not a length of time"),
    (partial(BoundedOutOfOrderness, NEGATIVE), "it cannot be negative"),
    (partial(TimeLag, NEGATIVE), "it cannot be negative"),
    (partial(Outstanding, NEGATIVE), "it cannot be negative"),
    (partial(WithIdleness, MonotonousTimestamps(), timedelta(0)), "give it a time above zero"),
    (partial(WithIdleness, MonotonousTimestamps(), NEGATIVE), "it cannot be negative"),
    *((partial(LatenessQuantile, one), "between 0 and 1, such as") for one in (0, 1, 99.9)),
    (
        partial(_writer, strategy=TimeLag(timedelta(0)), automatically_note_time=True),
        "leave one of them out",
    ),
    (partial(_writer, note_interval=timedelta(0)), "pass a timedelta above zero"),
    (partial(TimeReporter, *PLACE, note_interval=timedelta(0)), "pass a timedelta above zero"),
    (lambda: _writer().transaction().write("a", key="k"), "has not begun; write in its block"),
    (lambda: _writer().transaction(timeout=HALF_A_SECOND), "it is a second at least"),
    (partial(_produce, acks="0"), "acks=all"),
    (partial(_produce, **{"request.required.acks": 0}), "acks=all"),
    (partial(_produce, **{"delivery.report.only.error": True}), "acks=all"),
]


@pytest.mark.parametrize(("call", "text"), REFUSED)
def test_what_cannot_be_meant_is_refused_with_the_cure(
    call: Callable[[], object], text: str
) -> None:
    with pytest.raises((ValueError, TidegaugeError), match=text):
        call()
