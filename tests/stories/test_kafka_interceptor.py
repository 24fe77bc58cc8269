"""Kafka's own load generator, which nobody changes, with the interceptor among its settings."""

import pytest

from tests.broker import Broker
from tests.interceptor import HAS_JAVA, Noted
from tests.patience import wait_until
from tests.server import ServerProcess

pytestmark = [
    pytest.mark.only_on("sqlite", "clients know the service only"),
    pytest.mark.skipif(not HAS_JAVA, reason="there is no JDK"),
]


def test_no_record_of_two_load_generators_is_older_than_a_mark(
    shared_server: ServerProcess, broker: Broker
) -> None:
    with Noted(shared_server.url, broker) as noted:
        with (
            noted.perform("perf-1", 20_000) as first,
            noted.perform("perf-2", 30_000) as second,
        ):
            wait_until(lambda: len(noted.all_marks()) > 5)
            second.process.kill()
            with noted.perform("perf-2", 10_000) as again:
                first.end()
                again.end()
        assert noted.late() == []
        assert sum(map(len, noted.records().values())) > 30_000
        incarnations = {one["writer"]: one["incarnation"] for one in noted.writers()}
        assert incarnations == {"perf-1": 1, "perf-2": 2}
