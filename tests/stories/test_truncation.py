"""A stream that was truncated goes on behind what is gone, and one that was deleted begins anew."""

import pytest
from sqlalchemy import func, select

from controller.schema import chunks, deleted_streams, metadata, streams
from reader_client import StreamClient
from tests.patience import wait_until
from tests.server import ServerProcess
from tests.service.log_api import LogApi, numbered
from tests.service.sessions import connected

pytestmark = pytest.mark.about_sql

STREAM = "tests/truncated"


def _stored_chunks(server: ServerProcess) -> int:
    with connected(server.database_url) as connection:
        return connection.scalar(select(func.count()).select_from(chunks)) or 0


def _left_of_deleted(server: ServerProcess) -> int:
    """Count the streams that are yet to be removed, and the rows of streams that are not there."""
    known = select(streams.c.key)
    rows = [one for one in metadata.tables.values() if "stream_key" in one.columns]
    left = [select(one).where(one.c.stream_key.not_in(known)) for one in rows]
    with connected(server.database_url) as connection:
        counts = [select(func.count()).select_from(one.subquery()) for one in left]
        counts.append(select(func.count()).select_from(deleted_streams))
        return sum(connection.scalar(one) or 0 for one in counts)


def test_offsets_and_event_time_outlive_chunks_and_kills_until_the_stream_is_deleted(
    server: ServerProcess,
) -> None:
    with LogApi(server.url, STREAM) as log, StreamClient(server.url, STREAM) as client:
        log.create()
        log.register()
        for sequence in range(1, 11):
            log.append(numbered(10 * sequence - 10, 10), sequence)
        client.truncate(time=1_000)
        for _ in range(2):  # at first its chunks are hardly gone
            server.kill()
            server.start()
            tail = client.tail()
            assert (tail.tail, tail.first_cut) == ({0: 100}, {0: 100})
            wait_until(lambda: _stored_chunks(server) == 0)
        assert log.register()["position"] == {"0": 100}
        assert log.append(numbered(50, 10), 1, incarnation=2)["next_offset"] == 110
        assert log.start_of(99) == {"0": 100}  # event time had reached it before
        assert log.start_of(100) == {"0": 110}
        assert log.client.get("/v1/streams").json()["streams"][0]["tail"] == {"0": 110}
        read = log.read(start=100).table["event_time"].to_pylist()
        assert read == list(range(50, 60))
        log.note_time(50, incarnation=2)
        client.delete()
        server.kill()
        server.start()
        log.create()
        assert log.tail() == {"0": 0}
        wait_until(lambda: _left_of_deleted(server) == 0)
