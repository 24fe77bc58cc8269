"""The example of an archive: a stream's past in a table, and the rest of it from the remembered cut."""

from pathlib import Path

import pytest
from deltalake import CommitProperties, DeltaTable
from pyspark.sql import SparkSession

from examples.archive import archive, archived
from reader_client import StreamClient
from spark_source import read_stream
from tests.server import ServerProcess
from tidegauge.tables import complete_until, version_at
from writer_client import Writer

_NAME = "archive/rides"
_DAY = 1_704_067_200_000


@pytest.mark.usefixtures("delta")
def test_a_table_has_the_past_of_a_stream_and_a_query_reads_the_rest(
    shared_server: ServerProcess, lake_spark: SparkSession, tmp_path: Path
) -> None:
    url, table = shared_server.url, str(tmp_path / "rides")
    with StreamClient(url, _NAME) as client:
        client.create(segments=2)
        with Writer(url, _NAME, "w") as writer:
            for time in range(_DAY, _DAY + 4_000, 10):
                writer.write(b"", key=str(time), event_time=time)
                if time % 1_000 == 990:
                    writer.note_time(time + 10)
            writer.flush()
            # What comes below a time that the table is complete until is late.
            assert archive(url, _NAME, table, _DAY + 1_000) == archived(table)
            writer.write(b"", key="late", event_time=_DAY)
            writer.note_time(_DAY + 4_000)
            writer.flush()
        first = archived(table)
        assert first is not None
        archive(url, _NAME, table, _DAY + 3_000)
        assert version_at(table, _DAY + 1_000) == first[0]
        # What a RESTORE takes back is archived again.
        lake_spark.sql(f"RESTORE delta.`{table}` TO VERSION AS OF 0")
        assert archived(table) == first
        newest = archive(url, _NAME, table, _DAY + 3_000)
        assert archive(url, _NAME, table, _DAY + 3_000) == newest
        words = CommitProperties(custom_metadata={"userMetadata": "somebody's words"})
        DeltaTable(table).optimize.compact(commit_properties=words)
        assert archived(table) == newest
    assert newest is not None
    reached = complete_until(table)
    assert reached is not None
    assert reached >= _DAY + 3_000
    past = DeltaTable(table, version=newest[0]).to_pyarrow_table()["key"].to_pylist()
    rides = read_stream(lake_spark, url=url, stream=_NAME, startingCut=newest[1])
    query = rides.writeStream.format("memory").queryName("rest_of_rides")
    query.trigger(availableNow=True).start().awaitTermination()
    rest = [row["key"] for row in lake_spark.table("rest_of_rides").collect()]
    written = ["late", *map(str, range(_DAY, _DAY + 4_000, 10))]
    assert sorted(past + rest) == sorted(written)
    assert set(map(str, range(_DAY, _DAY + 3_000, 10))) <= set(past)
    assert rest
