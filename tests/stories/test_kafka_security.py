"""Everything of ours that talks to Kafka, over TLS with a password."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from reader_client.kafka import TimeWindows
from spark_source.logs.kafka_reader import KafkaReader
from spark_source.options.kafka import KafkaTopic
from tests.broker import Broker
from tests.certificates import Files
from tests.kafka import create_topic, quiet
from tests.patience import PATIENCE_S
from tests.service.api import NOON, Api, Open
from tests.service.operator import Operator
from tidegauge.client.kafka import BrokerError, Topic
from tidegauge.windows import TimeWindow
from writer_client.kafka import NotingProducer

pytestmark = pytest.mark.only_on("sqlite", "clients know the service only")

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
_ITSELF = 'username="broker" password="its-own" user_broker="its-own"'
_PASSWORD = "a-long-secret"

Settings = dict[str, Any]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Those of a user of a broker that wants TLS and a password."""
    folder = tmp_path_factory.mktemp("secured")
    files = Files(folder)
    identity = folder / "identity.pem"
    identity.write_bytes(_pkcs8(files.key.read_bytes()) + files.certificate.read_bytes())
    demands: Settings = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_SSL,CONTROLLER:PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": identity,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": files.authority,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": f"{_PLAIN} {_ITSELF};",
        "listener.name.plaintext.scram-sha-512.sasl.jaas.config": f"{_SCRAM};",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:broker;User:ANONYMOUS",  # the latter is the controller
        "allow.everyone.if.no.acl.found": "true",
    }
    with Broker(folder / "broker", **demands) as broker:
        secured = {
            "bootstrap.servers": broker.bootstrap,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(files.authority),
        }
        _let_in("orders", secured | _user("PLAIN", "broker", "its-own"))
        yield secured | _user("SCRAM-SHA-512", "orders", _PASSWORD)


def _pkcs8(key: bytes) -> bytes:
    """Write a private key in the form that Java reads."""
    private = load_pem_private_key(key, None)
    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _user(mechanism: str, name: str, password: str) -> Settings:
    return {
        "sasl.mechanism": mechanism,
        "sasl.username": name,
        "sasl.password": password,
    }


def _let_in(name: str, settings: Settings) -> None:
    admin = AdminClient(quiet(settings))
    scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    user = UserScramCredentialUpsertion(name, scram, _PASSWORD.encode())
    for made in admin.alter_user_scram_credentials([user]).values():
        made.result(PATIENCE_S)


def _produce(settings: Settings, shop: Api) -> None:
    with NotingProducer(
        Producer(quiet(settings)), shop.url, shop.name, "api-1", settings=settings
    ) as noting:
        noting.produce(shop.topic, b"tea", timestamp=NOON)
        noting.note_time(NOON)


def _observe(
    folder: Path, settings: Settings, shop: Api, *words: str
) -> tuple[int | None, str, str]:
    """Observe the topic of a stream; return how that ended, and what it said and warned of."""
    file = folder / "kafka.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    config = f"--kafka-config={file}"
    with Operator(shop.url).start("observe", "kafka", shop.name, config, *words) as observing:
        said, warned = observing.communicate(timeout=PATIENCE_S)
    return observing.returncode, said, warned


def test_who_has_the_password_produces_reads_and_observes(
    open_shop: Open, settings: Settings, tmp_path: Path
) -> None:
    shop = open_shop()
    create_topic(settings, shop.topic, retention_ms=-1)
    _produce(settings, shop)
    assert shop.mark == (NOON, {"0": 1})

    reader = KafkaReader(KafkaTopic(shop.topic, tuple(settings.items())))
    (run,) = reader.read(0, range(1))
    assert run.batch["value"].to_pylist() == [b"tea"]

    with TimeWindows.of_group("billing", settings, shop.url, shop.name) as windows:
        assert windows.get_time_window() == TimeWindow(None, NOON)

    words = ("--from", "beginning", "--until", "end")
    _, said, warned = _observe(tmp_path, settings, shop, *words)
    assert "1 writers, 1 events; 0 behind the end" in said, warned


def test_a_wrong_password_is_told_at_once_and_not_shown(
    open_shop: Open, settings: Settings, tmp_path: Path
) -> None:
    shop = open_shop()
    wrong = {**settings, "sasl.password": "hidden"}
    patience = timedelta(hours=1)
    calls: list[Callable[[], object]] = [
        Topic(wrong, "any", retry_for=patience).ends,
        lambda: _produce(wrong, shop),
    ]
    for call in calls:
        with pytest.raises(BrokerError, match="Authentication failed") as refused:
            call()
        assert "hidden" not in str(refused.value)
    assert shop.states() == {}

    code, _, warned = _observe(tmp_path, wrong, shop)
    assert (code, warned.count("Authentication failed")) == (1, 1)
    assert "hidden" not in warned


def test_who_may_not_read_the_group_is_told_its_name(
    open_shop: Open, settings: Settings, tmp_path: Path
) -> None:
    shop = open_shop()
    create_topic(settings, shop.topic)
    group = f"tidegauge-observe-{shop.name}".replace("/", "-")
    _allow_only(settings, ResourceType.GROUP, group, "User:another", AclOperation.READ)
    code, _, warned = _observe(tmp_path, settings, shop)
    assert code == 1
    assert f"give it Read on group {group}, or name another: --kafka group.id=NAME" in warned


def test_a_producer_that_may_not_write_is_told_before_anybody_waits_for_it(
    open_shop: Open, settings: Settings
) -> None:
    shop = open_shop()
    create_topic(settings, shop.topic)
    user = f"User:{settings['sasl.username']}"
    _allow_only(settings, ResourceType.TOPIC, shop.topic, user, AclOperation.DESCRIBE)
    with pytest.raises(
        BrokerError, match=f"may not write to topic '{shop.topic}'; allow it Write"
    ):
        _produce(settings, shop)
    assert shop.states() == {}


def _allow_only(
    settings: Settings, kind: ResourceType, name: str, user: str, operation: AclOperation
) -> None:
    literal, allow = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
    binding = AclBinding(kind, name, literal, user, "*", operation, allow)
    admin = AdminClient(quiet(settings))
    for made in admin.create_acls([binding]).values():
        made.result(PATIENCE_S)


def test_a_producer_without_its_settings_is_told_that_they_are_needed(
    open_shop: Open,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidegauge.client.kafka._CALL_S", 1.0)
    shop = open_shop()
    patience = timedelta(seconds=1)
    with (
        pytest.raises(BrokerError, match="settings="),
        NotingProducer(
            Producer(quiet(settings)), shop.url, shop.name, "api-1", retry_for=patience
        ),
    ):
        pass
