"""The options of a load that say where its topic is."""

from dataclasses import dataclass, field

from spark_source.errors import InvalidOptionError
from spark_source.options.given import GivenOptions, one_of

PREFIX = "kafka."
_BOOTSTRAP = "bootstrap.servers"
_OURS = (
    "auto.offset.reset",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.partition.eof",
    "isolation.level",
)
_SHOWN_BY_SPARK = ("ssl.key.pem", "private.key.pem", "passphrase")
"""Ends of the names of secrets that Spark would show in plans: it knows passwords, secrets and tokens."""


@dataclass(frozen=True, slots=True)
class KafkaTopic:
    """A topic and how to reach it.

    Attributes
    ----------
    name
        Of the topic.
    settings
        Of librdkafka, by name, with ``bootstrap.servers``.
    """

    name: str
    settings: tuple[tuple[str, str], ...] = field(repr=False)


def read_kafka_options(asked: GivenOptions, *, stream: str) -> KafkaTopic | None:
    """Read where the topic is; None for a stream that keeps its events itself.

    Raises
    ------
    InvalidOptionError
        If one is missing, is not for this source to set, or would be shown in plans.
    """
    is_kafka = asked.take("log", one_of("embedded", "kafka"), "embedded") == "kafka"
    topic = asked.take("topic", str)
    # Before the others, where one that is misspelt would count as a setting.
    bootstrap = asked.need(PREFIX + _BOOTSTRAP, str, "localhost:9092") if is_kafka else ""
    settings = asked.take_prefixed(PREFIX)
    if topic == "":
        cure = "is empty; leave it out for the stream's own name"
        raise InvalidOptionError("topic", cure)
    if not is_kafka:
        asked.refuse_misspelt("log")
        for name in ["topic"] * (topic is not None) + [PREFIX + one for one in settings]:
            raise InvalidOptionError(
                name, "is for a stream whose events are in Kafka; set log=kafka"
            )
        return None
    for name in settings:
        _check_setting(name)
    settings[_BOOTSTRAP] = bootstrap
    return KafkaTopic(topic or stream.partition("/")[2], tuple(sorted(settings.items())))


def _check_setting(name: str) -> None:
    if name in _OURS:
        raise InvalidOptionError(PREFIX + name, "is set by the source; leave it out")
    if name.endswith(_SHOWN_BY_SPARK):
        cure = "would be shown in Spark's plans; name a file, with kafka.ssl.key.location"
        raise InvalidOptionError(PREFIX + name, cure)
