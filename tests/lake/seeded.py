"""Sources of ticks with a bug, which the stories of tables have to find."""

from collections.abc import Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from spark_source.checkpoints.table_ticks import TableTick
from spark_source.compatibility import for_this_spark
from spark_source.following.followed import FollowedTable
from spark_source.following.tick_source import TickDataSource, TickReader, _read_options
from tidegauge.topology import Position


class _FarTable(FollowedTable):
    """Takes more for covered than was planned."""

    def planned(self, start: TableTick, ends: Sequence[Any]) -> Position | None:
        position = super().planned(start, ends)
        return position and {0: position[0] + 4}


class _LiveReader(TickReader):
    """Asks for the bound again where a batch is repeated."""

    def partitions(
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> Sequence[InputPartition]:
        now = self._watching(self._followed.offset(start)).watermark
        return super().partitions(start, end | {"bound": now})


class FarTicks(TickDataSource):
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 (Spark's)
        checkpoint, followed = _read_options(dict(self.options))
        followed.__class__ = _FarTable
        return for_this_spark(TickReader(checkpoint, followed))


class LiveTicks(TickDataSource):
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 (the same)
        return for_this_spark(_LiveReader(*_read_options(dict(self.options))))
