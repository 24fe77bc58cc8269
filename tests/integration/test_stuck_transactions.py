"""A controller that is paused with a part of a transaction sent ahead keeps its streams from nobody."""

from contextlib import closing
from pathlib import Path

import psycopg

from tests.integration.controllers import LEASE_MS, Controllers, controllers, create, note
from tests.patience import wait_until
from tests.postgres import Cluster


def _send_ahead(connection: psycopg.Connection, text: str) -> None:
    """Send the begin of a transaction, and not what ends the pipeline that it is sent in."""
    connection.execute("SET idle_in_transaction_session_timeout = '1s'")
    connection.execute("SET application_name = 'tidegauge'")
    connection.pgconn.enter_pipeline_mode()
    for one in ("BEGIN", text):
        connection.pgconn.send_query_params(one.encode(), None)
    connection.pgconn.send_flush_request()
    connection.pgconn.flush()


def _is_locked(two: Controllers, lease: str) -> bool:
    return two.query(f"{lease} FOR UPDATE SKIP LOCKED") == []


def test_who_is_lost_in_the_midst_of_a_pipeline_is_replaced(
    cluster: Cluster, tmp_path: Path
) -> None:
    with controllers(cluster, tmp_path, 2, lease_ms=LEASE_MS) as two:
        create(two.servers[0].url, "tests/one")
        lost = two.holder_of("tests/one")
        (staying,) = (one for one in two.servers if one is not lost)
        lease = f"SELECT 1 FROM controllers WHERE address = '{lost.url}'"
        with closing(two.connect()) as connection:
            _send_ahead(connection, f"{lease} FOR SHARE")
            wait_until(lambda: _is_locked(two, lease))
            lost.kill()
            wait_until(lambda: two.held() == [1, 0])
        assert note(staying.url, "tests/one", 1).is_success
