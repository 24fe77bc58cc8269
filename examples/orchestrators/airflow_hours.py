"""Airflow 3.3: a task for each hour that is complete, and again after late rows.
Put it into the folder of DAGs, and that folder on PYTHONPATH: the triggerer imports it, too."""

import asyncio
import os
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.configuration import conf
from airflow.sdk import Asset, AssetWatcher, dag, task
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from tidegauge.tables import intervals

TABLE, LOG, EVERY = (os.environ[name] for name in ("TABLE", "LOG", "EVERY"))
MOST = min(1_000, conf.getint("core", "max_map_length"))  # tasks of one list; refused above
AGAIN = {"retries": 3, "retry_delay": timedelta(seconds=1)}  # a worker may be killed


class Hours(BaseEventTrigger):
    # Wakes the DAG. It must not keep the cursor: what it yields is stored later than that.
    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "airflow_hours.Hours", {}  # DAGs have another __module__

    async def run(self) -> Any:
        woken = None
        while True:
            since = await self.asset_state_store.aget("cursor")
            # In a thread: to load Arrow takes so long that Airflow calls a loop dead.
            found = await asyncio.to_thread(intervals, TABLE, since=since, event_time="t")
            if (found.new or found.again) and found.cursor != woken:
                yield TriggerEvent({"version": found.version})
            woken = found.cursor
            await asyncio.sleep(float(EVERY))


hours = Asset("hours", watchers=[AssetWatcher(name="complete", trigger=Hours())])


@dag(schedule=hours, catchup=False, max_active_runs=1)  # two runs would ask behind one cursor
def hourly() -> None:
    @task(inlets=[hours], **AGAIN)
    def ask(asset_state_store: Any = None, ti: Any = None) -> list[Any]:
        found = intervals(TABLE, since=asset_state_store.get("cursor"), event_time="t")
        ti.xcom_push(key="cursor", value=found.cursor)
        listed = [(i.start, i.end, found.version) for i in found.new + found.again]
        size = max(1, -(-len(listed) // MOST))
        return [listed[at : at + size] for at in range(0, len(listed), size)]

    @task(inlets=[hours], **AGAIN)  # of its own: Airflow has accepted the list by now
    def keep(cursor: str | None, asset_state_store: Any = None) -> None:
        asset_state_store.set("cursor", cursor)

    @task(max_active_tis_per_dagrun=1, **AGAIN)
    def run_hours(listed: list[tuple[int, int, int]]) -> None:
        from run_hour import run  # noqa: PLC0415 (it loads Arrow, and DAGs are parsed often)

        for start, end, version in listed:
            ends = (datetime.fromtimestamp(ms / 1000, UTC).isoformat() for ms in (start, end))
            run(TABLE, LOG, *ends, str(version))

    asked: Any = ask()
    keep(asked["cursor"]) >> run_hours.expand(listed=asked)


hourly()
