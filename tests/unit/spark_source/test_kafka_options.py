"""Where a load says its topic is, and what it may not say."""

import re

import pytest

from spark_source.errors import InvalidOptionError
from spark_source.frames.watermark import _SHOWN_OPTION
from spark_source.options.load import read_options

GIVEN = {"url": "http://here", "stream": "shop/orders", "log": "kafka"}
SERVERS = {"kafka.bootstrap.servers": "broker:9092"}


def test_a_topic_has_the_name_of_its_stream_unless_it_is_told() -> None:
    found = read_options(GIVEN | SERVERS).kafka
    assert found is not None
    assert (found.name, found.settings) == ("orders", (("bootstrap.servers", "broker:9092"),))
    named = read_options(GIVEN | SERVERS | {"topic": "o"}).kafka
    assert named is not None
    assert named.name == "o"
    assert read_options({"url": "http://here", "stream": "shop/orders"}).kafka is None


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({}, "'kafka.bootstrap.servers': is required"),
        ({"kafka.bootstrap.servers": ""}, "'kafka.bootstrap.servers': is required"),
        (SERVERS | {"topic": ""}, "'topic': is empty; leave it out"),
        (SERVERS | {"log": "embedded"}, "'kafka.bootstrap.servers': .* set log=kafka"),
        ({"topic": "o", "log": "embedded"}, "'topic': .* set log=kafka"),
        (SERVERS | {"log": "pulsar"}, "'pulsar' is not one of embedded, kafka"),
        (
            SERVERS | {"kafka.isolation.level": "read_uncommitted"},
            "'kafka.isolation.level': is set by the source",
        ),
        (SERVERS | {"kafka.ssl.key.pem": "hidden"}, "name a file, with kafka.ssl.key.location"),
    ],
)
def test_what_a_load_may_not_say_is_refused_with_the_cure(
    wrong: dict[str, str], told: str
) -> None:
    with pytest.raises(InvalidOptionError, match=told) as refused:
        read_options(GIVEN | wrong)
    assert "hidden" not in str(refused.value)


def test_a_password_is_not_in_the_text_of_options_and_redacted_in_a_request_over_connect() -> (
    None
):
    options = read_options(GIVEN | SERVERS | {"kafka.sasl.password": "hidden"})
    assert "hidden" not in repr(options)
    request = 'key: "kafka.sasl.password"\n  value: "hid\\"den"\n} key: "topic" value: "o"'
    assert re.sub(_SHOWN_OPTION, "*", request) == '*\n} key: "topic" value: "o"'
