"""Producers to Kafka that note time: a `confluent_kafka.Producer` with exact watermarks.

Needs the extra ``kafka``. [The guide](../../how-to/kafka-producers.md) has the rest.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from types import MethodType
from typing import Any, TypeAlias, TypeVar, Unpack

from tidegauge.client.blocks import Opening
from tidegauge.client.sync import LoopThread
from tidegauge.event_time import to_event_time
from tidegauge.extras import needs_extra
from tidegauge.names import StreamName
from writer_client._clocked import wall_ms
from writer_client._errors import (
    DeliveryFailedError,
    EventsNotStoredError,
    FailedRecord,
    LogAppendTimeError,
    NoAcknowledgementsError,
    WriterClosedError,
)
from writer_client._options import ProducerOptions
from writer_client.strategies import ObservedEvent

with needs_extra("writer_client.kafka", extra="kafka"):
    from confluent_kafka import (
        KafkaError,
        KafkaException,
        Message,
        Producer,
        TopicPartition,
    )
    from confluent_kafka.admin._metadata import ClusterMetadata

    from tidegauge.client.kafka import BrokerError, Topic
    from writer_client._deliveries import Deliveries, Span
    from writer_client._membership import MemberFace, Membership
    from writer_client._reporting import Log, Reporting

__all__ = [
    "DeliveryFailedError",
    "FailedRecord",
    "LogAppendTimeError",
    "NoAcknowledgementsError",
    "NotingProducer",
]

_T = TypeVar("_T")
OnDelivery: TypeAlias = Callable[[KafkaError | None, Message], None]
Headers: TypeAlias = dict[str, str | bytes | None] | list[tuple[str, str | bytes | None]]

_OF_THE_PRODUCER = "the brokers of the producer"
_CURE = "where brokers want TLS or a password, give settings= as well"
_OF_A_PRODUCER = ("transactional.id", "enable.idempotence", "on_delivery", "stats_cb")
"""Settings that are not for the client that reads where the log ends."""
_FLUSH_S = 5


class NotingProducer(MemberFace, Opening):
    """Produces to Kafka and notes time, each time for exactly what was produced before it.

    It goes around a producer of the caller's: `produce` is as ever, and `note_time` neither waits nor
    flushes. A note is sent in the background once all that was produced before it is acknowledged,
    however the acknowledgements overtake each other.

    Parameters
    ----------
    producer
        A ``confluent_kafka.Producer``. Poll, flush and use transactions through this object.
    url
        Of the service, or of each of its controllers, with commas between.
    stream
        ``scope/stream``, created with ``log: external``.
    name
        Of this writer: chosen by its owner, and the same after a restart. Only one process notes under
        a name at a time: the newest; the one before gets `WriterFencedError`.
    topic : str, optional
        The stream's log; the name of the stream without its scope if left out. What is produced to
        other topics passes through.
    settings : Mapping, optional
        Those that the producer was made with. Where the log ends is read with them, and
        what cannot work is refused. If left out, the brokers that the producer knows are asked, without
        authentication.
    token : str, optional
        Bearer token, if the service wants one.
    first_time : int or datetime, optional
        Nothing that will be produced is older (ms or an aware datetime).
    strategy : Strategy, optional
        Notes by itself, see `writer_client.strategies`: every ``note_interval``, at once where a record
        says so, and with `close` and `leave`.
    note_interval : timedelta, default 200 ms
        How often a strategy is asked.
    beat : {"unacknowledged", "always"}, default "unacknowledged", with a strategy "always"
        When the last accepted time is repeated, so that this writer is not dropped for silence: while a
        note waits for acknowledgements, or always.
    retry_for : timedelta, default 60 s
        How long `open`, `close` and `leave` wait for the service and the broker. Notes wait for
        as long as it takes; producing goes on meanwhile.

    Raises
    ------
    NoAcknowledgementsError
        If the settings say so: ``acks=0``. Without settings it is raised by the calls after the first
        record was sent, and nothing is noted before.

    Notes
    -----
    **Delivery failed.** A record that Kafka gave up may be produced again, or stored after all. So no note
    made behind it counts: the next `note_time` (with a strategy, the next `produce`) raises
    `DeliveryFailedError` with the records, once. What is noted after that counts again, and covers
    whatever the log holds by then.

    **Restarts.** The first note covers the whole log as `open` finds it, since nobody knows what the former
    process wrote last. With ``transactional.id`` among the ``settings`` nothing is noted before
    `init_transactions`, after which no zombie can write, and which reads the end again.

    **Transactions.** What is noted in one is sent once it is committed, and dropped if it is aborted.

    **Errors.** What the service refuses (`ReportRefusedError`) is raised by the next call, and by every
    later one but `close`; records produced before that are delivered. So is `LogAppendTimeError`, where the
    broker replaces timestamps and a record has no ``event_time``: the first acknowledgement shows it.

    **Threads.** All methods may be called from any thread. Callbacks run in whatever thread polls: that of
    a call of `poll` or `flush`, and one of this object's, which polls while a note waits. A process
    that forks makes a producer in each child.

    Examples
    --------
    >>> from confluent_kafka import Producer
    >>> producer = Producer({"bootstrap.servers": "127.0.0.1:9092"})
    >>> with NotingProducer(producer, "http://127.0.0.1:8470", "shop/orders", "api-1") as noting:
    ...     noting.produce("orders", value=b"tea", key=b"k1", timestamp=1_700_000_000_000)
    ...     noting.note_time(1_700_000_000_000)
    """

    def __init__(
        self,
        producer: Producer,
        url: str,
        stream: str,
        name: str,
        *,
        topic: str | None = None,
        settings: Mapping[str, Any] | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        self._producer = producer
        self._topic = topic or StreamName.parse(stream).stream
        self._settings = settings
        self._default_on_delivery = _check(settings or {}, name)
        self._thread = LoopThread(
            f"tidegauge-producer-{name}", closed=partial(WriterClosedError, name)
        )
        self._member = Membership(url, stream, name, options, beat="unacknowledged")
        self._strategy = self._member.strategy
        self._deliveries = Deliveries(
            self._member.noter, lambda: self._thread.call_soon(self._reporting.wake)
        )
        self._log: Topic | None = None
        # Acknowledgements come one at a time: to order them one by one would cost more.
        self._polling = threading.RLock()
        self._was_polled = False
        log = Log(
            check=partial(self._asked, Topic.check_writable),
            poll=self._poll_for_caller,
            ends=partial(self._asked, Topic.high_watermarks),
            is_away=lambda error: isinstance(error, BrokerError),
        )
        self._reporting = Reporting(self._member, self._deliveries, log)
        self._opened = False
        self._is_transactional = "transactional.id" in (settings or {})
        self._notes = False

    def open(self) -> None:
        """Register, and read where the log ends. `produce` and `note_time` do it too.

        Raises
        ------
        UnknownStreamError, StreamSealedError
            If there is nothing to note on.
        ServiceUnreachableError, BrokerError
            If the service or the broker does not answer, or the broker lets nobody with these settings
            write to the topic; the producer is not registered then.
        UnknownTopicError
            If there is no such topic.
        ValueError
            If the stream has an embedded log.
        """
        self._thread.check_open()
        if not self._opened:
            self._thread.run(self._member.open(self._open))

    def produce(
        self,
        topic: str,
        value: str | bytes | None = None,
        key: str | bytes | None = None,
        partition: int = -1,
        *,
        on_delivery: OnDelivery | None = None,
        timestamp: int = 0,
        headers: Headers | None = None,
        event_time: int | datetime | None = None,
    ) -> None:
        """Produce a record, as ``confluent_kafka.Producer.produce`` does.

        Parameters
        ----------
        topic, value, key, partition, on_delivery, timestamp, headers
            As ever.
        event_time
            In ms or an aware datetime; the timestamp if left out. A strategy is shown it (the clock if there
            is neither), and what is below a noted time counts in ``late_events``.

        Raises
        ------
        BufferError, KafkaException
            As ever; the record is not produced then.
        DeliveryFailedError
            With a strategy, once; this record is not produced then.
        ReportRefusedError, WriterFencedError, NoAcknowledgementsError, WriterClosedError
            What has stopped this producer before.
        """
        if topic != self._topic:
            self._producer.produce(
                topic, value, key, partition, on_delivery, None, timestamp, headers
            )
            return
        if not self._opened:
            self.open()
        span = self._deliveries.begin(event_time)
        # The report of a failed record has neither its timestamp nor its headers. So the callback is
        # bound to them, as a method is to its object: it costs two thirds of a partial.
        bound = span.heard_at
        if headers:
            bound = MethodType(span.heard, (timestamp, headers))
        elif bound.__self__ != timestamp:
            # Kept for the next record, which often has the same timestamp. Another thread may put
            # its own there at any time, so what was read before is used.
            bound = span.heard_at = MethodType(span.heard, timestamp)
        given = on_delivery or self._default_on_delivery
        heard: OnDelivery = bound if given is None else _and_then(bound, given)
        try:
            # By position: names cost a tenth of the call.
            self._producer.produce(
                topic, value, key, partition, heard, None, timestamp, headers
            )
        except BaseException:
            self._deliveries.withdraw(span)
            raise
        if self._strategy is not None:
            self._observe(value, key, (timestamp or None) if event_time is None else event_time)
        elif event_time is not None:
            self._member.noter.compare(to_event_time(event_time))
        elif timestamp:
            self._member.noter.compare(timestamp)

    def produce_batch(
        self,
        topic: str,
        messages: list[dict[str, Any]],
        partition: int = -1,
        *,
        on_delivery: OnDelivery | None = None,
    ) -> int:
        """Produce records, as ``confluent_kafka.Producer.produce_batch`` does; return how many.

        It takes neither timestamps nor headers. An ``event_time`` in a dictionary is as that of `produce`; an
        ``_error`` is put there if the record is not produced. Where `produce` raises, nothing is produced.
        """
        if topic != self._topic:
            return self._producer.produce_batch(
                topic, messages, partition, on_delivery=on_delivery
            )
        if not self._opened:
            self.open()
        default = on_delivery or self._default_on_delivery
        begun: list[Span] = []
        sent: list[dict[str, Any]] = []
        try:
            for one in messages:
                one.pop("_error", None)
                begun.append(span := self._deliveries.begin(one.get("event_time")))
                given, heard = one.get("callback") or default, MethodType(span.heard, 0)
                sent.append({**one, "callback": _and_then(heard, given) if given else heard})
            produced = self._producer.produce_batch(topic, sent, partition)
        except BaseException:
            for span in begun:
                self._deliveries.withdraw(span)
            raise
        for one, tried, span in zip(messages, sent, begun, strict=True):
            if "_error" in tried:
                one["_error"] = tried["_error"]
                self._deliveries.withdraw(span)
            elif self._strategy is not None:
                self._observe(one.get("value"), one.get("key"), one.get("event_time"))
            elif one.get("event_time") is not None:
                self._member.noter.compare(to_event_time(one["event_time"]))
        return produced

    def note_time(self, time: int | datetime) -> None:
        """Promise that every record produced from now on is at or above a time.

        It covers exactly what was produced before it, and does not wait: it is sent once all of that
        is acknowledged, in a transaction once that is committed.

        Raises
        ------
        DeliveryFailedError
            If records produced before were not delivered, once; nothing is noted then.
        InvalidTimeError
            If it is below the time noted before; nothing is noted then, and the producer goes on.
        ReportRefusedError, WriterFencedError, NoAcknowledgementsError, WriterClosedError
            What has stopped this producer before.
        """
        noted = to_event_time(time)
        self.open()
        self._deliveries.note(noted)

    def poll(self, timeout: float = -1) -> int:
        """Serve callbacks, as ``confluent_kafka.Producer.poll`` does; 0 while another thread serves them."""
        self._was_polled = True
        return self._poll(timeout)

    def flush(self, timeout: float = -1) -> int:
        """Wait for deliveries, as ``confluent_kafka.Producer.flush`` does; notes follow by themselves."""
        with self._polling:
            return self._producer.flush(timeout)

    def __len__(self) -> int:
        """Count what is not delivered, as ``len`` of a ``confluent_kafka.Producer`` does."""
        return len(self._producer)

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        """Ask for topics and brokers, as usual."""
        found: ClusterMetadata = self._producer.list_topics(topic, timeout)
        return found

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Set the user and password of the producer, as usual; those in ``settings`` stay as they are."""
        self._producer.set_sasl_credentials(username, password)

    def init_transactions(self, timeout: float = -1) -> None:
        """Begin to use transactions: no former process of this ``transactional.id`` can write any more."""
        self._producer.init_transactions(timeout)
        self.open()
        self._thread.run(self._begin_noting())

    def send_offsets_to_transaction(
        self, positions: list[TopicPartition], group_metadata: object, timeout: float = -1
    ) -> None:
        """Commit a consumer's positions with the transaction, as usual."""
        self._producer.send_offsets_to_transaction(positions, group_metadata, timeout)

    def begin_transaction(self) -> None:
        """Begin a transaction; what is noted from now on waits for its commit."""
        self._deliveries.begin_transaction()
        try:
            self._producer.begin_transaction()
        except BaseException:
            self._deliveries.abort()
            raise

    def commit_transaction(self, timeout: float = -1) -> None:
        """Commit, and send what was noted in the transaction.

        If it raises, notes wait until it is called again or the transaction is aborted, as
        ``confluent_kafka.Producer`` wants.
        """
        with self._polling:
            self._producer.commit_transaction(timeout)
        self._deliveries.commit()

    def abort_transaction(self, timeout: float = -1) -> None:
        """Abort, and drop what was noted in the transaction; its failed deliveries are forgotten.

        What was produced is flushed before, for 5 s at most.
        """
        # librdkafka may ask for the end while the coordinator has not registered any partition yet, is
        # refused, and takes that as fatal. What is acknowledged is registered. Were nothing to come any
        # more, as after an error that wants an abort, waiting longer would be in vain.
        self.flush(_FLUSH_S if timeout < 0 else min(timeout, _FLUSH_S))
        with self._polling:
            self._producer.abort_transaction(timeout)
        self._deliveries.abort()

    def close(self) -> None:
        """Flush, wait until notes are accepted, and stay a member of the stream.

        It waits for the broker and for the service ``retry_for`` at most each. The producer itself stays
        open. What was noted in a transaction that is still open is dropped.

        Raises
        ------
        DeliveryFailedError
            If it was not raised before; the times noted behind are not noted.
        EventsNotStoredError
            If something was not acknowledged or not accepted in time.
        ReportRefusedError, WriterFencedError
            If a note was refused, and no call has raised that before.
        """
        self._end(leaves=False)

    def leave(self) -> None:
        """Flush and leave the stream: this writer will not return, and no reader waits for it.

        Raises what `close` does; it has not left then.
        """
        self.open()
        self._end(leaves=True)

    def _end(self, *, leaves: bool) -> None:
        self._thread.check_process()
        if self._opened:
            self._deliveries.note_by_strategy()
            self.flush(self._member.retry_for.total_seconds())
        self._thread.end(partial(self._last, leaves=leaves))

    async def _open(self) -> None:
        await self._reporting.open()
        if self._member.first_time is not None:
            self._deliveries.note(self._member.first_time)
        if not self._is_transactional:
            self._start_noting()
        self._opened = True

    async def _begin_noting(self) -> None:
        """Note from here on, now that no former process can write: the first note covers what those did."""
        await self._reporting.cover_ends()
        self._start_noting()

    def _start_noting(self) -> None:
        if not self._notes:
            self._notes = True
            self._reporting.start()

    async def _last(self, *, leaves: bool) -> None:
        """Send what is due, and then leave or not."""
        self._deliveries.close()
        try:
            if self._notes:
                await self._settle()
            if leaves:
                await self._member.calls.leave(*self._deliveries.last)
        finally:
            await self._member.stop()
            await self._member.calls.transport.aclose()

    async def _settle(self) -> None:
        if self._member.noter.is_told:
            return
        with suppress(TimeoutError):  # raised below
            async with asyncio.timeout(self._member.retry_for.total_seconds()):
                await self._reporting.settle()
        self._deliveries.raise_failure()
        unstored, notes = self._deliveries.missing()
        if unstored or notes:
            reason = TimeoutError(
                f"not acknowledged or not accepted within {self._member.retry_for}"
            )
            raise EventsNotStoredError(unstored, notes, reason)

    def _poll(self, timeout: float) -> int:
        if not self._polling.acquire(timeout=timeout):
            return 0
        try:
            return self._producer.poll(timeout)
        finally:
            self._polling.release()

    async def _poll_for_caller(self) -> None:
        was_polled, self._was_polled = self._was_polled, False
        if not was_polled:
            await asyncio.to_thread(self._poll, 0)

    def _observe(
        self,
        value: str | bytes | None,
        key: str | bytes | None,
        event_time: int | datetime | None,
    ) -> None:
        time = wall_ms() if event_time is None else to_event_time(event_time)
        text = key.decode(errors="replace") if isinstance(key, bytes) else key or ""
        payload = value.encode() if isinstance(value, str) else value or b""
        self._deliveries.observe(ObservedEvent(time, text, payload))

    def _asked(self, question: Callable[[Topic], _T]) -> _T:
        if self._log is None:
            settings = self._settings or _brokers_of(self._producer, self._member.retry_for)
            wanted = {name: settings[name] for name in settings if name not in _OF_A_PRODUCER}
            self._log = Topic(wanted, self._topic, retry_for=self._member.retry_for)
        try:
            return question(self._log)
        except BrokerError as error:
            if self._settings is None:
                raise BrokerError(error.bootstrap, f"{error.reason}; {_CURE}") from error
            raise


def _and_then(acknowledge: OnDelivery, given: OnDelivery) -> OnDelivery:
    def acknowledge_and_call(error: KafkaError | None, message: Message) -> None:
        acknowledge(error, message)
        given(error, message)

    return acknowledge_and_call


def _check(settings: Mapping[str, Any], name: str) -> OnDelivery | None:
    """Refuse settings by which nobody hears what is stored; return what else hears of deliveries."""
    acks = settings.get("acks", settings.get("request.required.acks", "all"))
    only_errors = settings.get("delivery.report.only.error", False)
    if str(acks) == "0" or str(only_errors).lower() == "true":
        raise NoAcknowledgementsError(name)
    return settings.get("on_delivery")


def _brokers_of(producer: Producer, patience: timedelta) -> dict[str, str]:
    """Make the settings that a client without authentication needs."""
    try:
        brokers = producer.list_topics(timeout=patience.total_seconds()).brokers.values()
    except KafkaException as error:
        raise BrokerError(_OF_THE_PRODUCER, error.args[0].str()) from error
    return {"bootstrap.servers": ",".join(f"{one.host}:{one.port}" for one in brokers)}
