"""What everything of ours that talks to Kafka shares: its settings, a topic's ends, and errors.

Needs the extra ``kafka``.
"""

import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_exponential

from tidegauge.client.outage import RETRY_FOR
from tidegauge.errors import TidegaugeError
from tidegauge.event_time import check_span
from tidegauge.extras import needs_extra
from tidegauge.topology import Position

with needs_extra("Kafka", extra="kafka"):
    from confluent_kafka import (
        IsolationLevel,
        KafkaError,
        KafkaException,
        TopicCollection,
        TopicPartition,
    )
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.admin._acl import AclOperation
    from confluent_kafka.admin._listoffsets import OffsetSpec

_T = TypeVar("_T")
_CALL_S = 10.0
_HEAR_S = 0.1
"""A wrong password is reported this long after librdkafka learned of it."""
_QUIET_S = 60
_SECRET = re.compile("password|secret|token|passphrase|pem|oauthbearer")
_CURE = "is bootstrap.servers right, and security.protocol?"
_UNKNOWN = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC}  # noqa: SLF001 (its name)
_TRANSIENT = {
    KafkaError._TIMED_OUT,  # noqa: SLF001
    KafkaError._TRANSPORT,  # noqa: SLF001
    KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
    KafkaError._NOENT,  # noqa: SLF001 (no leader of a partition is known)
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.UNKNOWN_LEADER_EPOCH,
}


class _OnceAMinute(logging.Filter):
    """Lets what librdkafka says ten times a second, while a broker is away, through now and then."""

    def __init__(self) -> None:
        super().__init__()
        self._logged_s: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the same was not logged within the last minute."""
        said, now_s = _without_time(record.getMessage()), time.monotonic()
        if now_s - self._logged_s.get(said, -_QUIET_S) < _QUIET_S:
            return False
        recent = {text: at for text, at in self._logged_s.items() if now_s - at < _QUIET_S}
        self._logged_s = {**recent, said: now_s}
        return True


def _without_time(said: str) -> str:
    return said.partition(" (after ")[0]


_log = logging.getLogger("tidegauge.kafka.client")
_log.addFilter(_OnceAMinute())


class BrokerError(TidegaugeError):
    """A Kafka broker did not answer, or refused.

    Attributes
    ----------
    reason
        What it or the client library said; no settings, and so no secrets.
    """

    def __init__(self, bootstrap: str, reason: str) -> None:
        self.bootstrap = bootstrap
        self.reason = reason
        super().__init__(f"Kafka at {bootstrap}: {reason}")


class UnknownTopicError(TidegaugeError):
    """There is no such topic, or this user may not see it."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        super().__init__(
            f"Kafka at {bootstrap} has no topic {topic!r}, or does not show it to this user; "
            "create it first, or check its name"
        )


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic as it is now.

    Attributes
    ----------
    topic_id
        Another one once the topic is deleted and created again.
    partitions
        Their numbers, which are those of the stream's segments.
    """

    topic_id: str
    partitions: tuple[int, ...]


def settings_of(given: Mapping[str, Any], **ours: Any) -> dict[str, Any]:  # noqa: ANN401 (librdkafka's)
    """Make the settings of a client of librdkafka, which logs where we do and not to stderr.

    Ours are by the name of the setting with ``_`` for each ``.``.
    """
    named = {name.replace("_", "."): value for name, value in ours.items()}
    return {"logger": _log, **given, **named}


def made(kind: Callable[[dict[str, Any]], _T], settings: Mapping[str, Any]) -> _T:
    """Make a client of librdkafka, which refuses a setting that it does not know.

    Raises
    ------
    BrokerError
        If a setting is wrong.
    """
    try:
        return kind(dict(settings))
    except KafkaException as error:
        reason: str = error.args[0].str()
    for name, value in settings.items():
        if value and _SECRET.search(name):
            reason = reason.replace(str(value), "***")
    raise BrokerError(str(settings.get("bootstrap.servers")), reason)


class Topic:
    """Asks a broker about a topic; what is transient is asked again for a while.

    Parameters
    ----------
    settings
        Of librdkafka; ``bootstrap.servers`` at least.
    name
        Of the topic.
    retry_for
        How long a broker that does not answer is asked again.

    Raises
    ------
    BrokerError
        If a setting is wrong; by every method, if the broker does not answer or refuses.
    UnknownTopicError
        By every method, if there is no such topic.
    """

    def __init__(
        self, settings: Mapping[str, Any], name: str, *, retry_for: timedelta = RETRY_FOR
    ) -> None:
        self.name = name
        self.bootstrap = str(settings["bootstrap.servers"])
        self._retry_for = check_span("retry_for", retry_for)
        self._call_s = min(_CALL_S, retry_for.total_seconds() or _CALL_S)
        self._heard: KafkaError | None = None
        self._admin = made(AdminClient, settings_of(settings) | {"error_cb": self._hear})

    def describe(self) -> TopicInfo:
        """Read its id and partitions."""
        description = self._description()
        numbers = tuple(sorted(partition.id for partition in description.partitions))
        return TopicInfo(str(description.topic_id), numbers)

    def check_writable(self) -> None:
        """Raise `BrokerError` if this user may not write to it."""
        allowed = self._description(include_authorized_operations=True).authorized_operations
        # Brokers before 2.3 do not say.
        if allowed and AclOperation.WRITE not in allowed:
            reason = f"this user may not write to topic {self.name!r}; allow it Write there"
            raise BrokerError(self.bootstrap, reason)

    def starts(self) -> Position:
        """Read the first offset there is of each partition."""
        return self._offsets(OffsetSpec.earliest())

    def starts_at(self, time: int) -> Position:
        """Return the first record of each partition whose timestamp is at or above a time, ms.

        Where there is none yet it is the last stable offset, as it was before the search. The
        broker finds that very record, however the timestamps before it jump.
        """
        ends = self.ends()
        spec = OffsetSpec.for_timestamp(max(0, time))
        offsets = self._offsets(spec, IsolationLevel.READ_COMMITTED, partitions=ends)
        return {n: at if at >= 0 else ends[n] for n, at in offsets.items()}

    def ends(self, partitions: Iterable[int] | None = None) -> Position:
        """Read the last stable offset of each partition, below which all is decided and readable.

        Of all partitions, unless they are known.
        """
        return self._offsets(
            OffsetSpec.latest(), IsolationLevel.READ_COMMITTED, partitions=partitions
        )

    def high_watermarks(self) -> Position:
        """Read the next offset of each partition, transactions that are still open included."""
        return self._offsets(OffsetSpec.latest())

    def _description(self, **more: Any) -> Any:  # noqa: ANN401 (of Kafka's client)
        topics = TopicCollection([self.name])

        def ask() -> list["Future[Any]"]:
            futures = self._admin.describe_topics(topics, request_timeout=self._call_s, **more)
            return list(futures.values())

        (description,) = self._ask(ask)
        return description

    def _offsets(
        self,
        spec: OffsetSpec,
        level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        *,
        partitions: Iterable[int] | None = None,
    ) -> Position:
        numbers = tuple(self.describe().partitions if partitions is None else partitions)

        def ask() -> list[Any]:
            wanted = {TopicPartition(self.name, number): spec for number in numbers}
            futures = self._admin.list_offsets(
                wanted, isolation_level=level, request_timeout=self._call_s
            )
            return [futures[place] for place in wanted]

        answers = self._ask(ask)
        return {n: answer.offset for n, answer in zip(numbers, answers, strict=True)}

    def _hear(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001 (follows what says why)
            self._heard = error

    def _ask(self, call: Callable[[], list["Future[Any]"]]) -> list[Any]:
        """Make a call that answers with futures, and wait for them."""
        retrying = Retrying(
            retry=retry_if_exception(_is_transient),
            stop=stop_after_delay(self._retry_for),
            wait=wait_exponential(0.1, max=2),
            before_sleep=self._ask_for_leader,
            reraise=True,
        )
        self._admin.poll(0)  # hands over what librdkafka had to say since the last call
        self._heard = None
        try:
            return retrying(lambda: self._answers(call()))
        except (KafkaException, TimeoutError) as error:
            raise self._error(error) from error

    def _answers(self, futures: list["Future[Any]"]) -> list[Any]:
        """Wait for answers, unless a broker refuses the password, which librdkafka tries for ever."""
        give_up = time.monotonic() + 2 * self._call_s
        while wait(futures, _HEAR_S).not_done:
            self._admin.poll(0)
            if self._heard is not None and self._heard.code() == KafkaError._AUTHENTICATION:  # noqa: SLF001
                raise KafkaException(self._heard)
            if time.monotonic() > give_up:
                raise TimeoutError
        return [future.result() for future in futures]

    def _ask_for_leader(self, _: object) -> None:
        """Ask for the leader: a restarted broker refuses what librdkafka knew before."""
        with suppress(KafkaException):
            self._admin.list_topics(self.name, timeout=self._call_s)

    def _error(self, error: Exception) -> TidegaugeError:
        reason = error.args[0] if error.args else None
        if isinstance(reason, KafkaError) and reason.code() in _UNKNOWN:
            return UnknownTopicError(self.bootstrap, self.name)
        problem = _without_time(reason.str()) if isinstance(reason, KafkaError) else "no answer"
        if not _is_transient(error):
            return BrokerError(self.bootstrap, problem)
        self._admin.poll(0)
        heard = [] if self._heard is None else [_without_time(self._heard.str())]
        return BrokerError(self.bootstrap, "; ".join([problem, *heard, _CURE]))


def _is_transient(error: BaseException) -> bool:
    if isinstance(error, TimeoutError):
        return True
    reason = error.args[0] if error.args else None
    return (
        isinstance(error, KafkaException)
        and isinstance(reason, KafkaError)
        and reason.code() not in _UNKNOWN
        and is_passing(reason)
    )


def is_passing(error: KafkaError) -> bool:
    """Return whether what the client library says may pass by itself, as a broker's restart does."""
    return bool(error.retriable()) or error.code() in _TRANSIENT
