"""Dagster: a run for each hour that is complete, and again after late rows.

dagster dev -f dagster_hours.py, with dagster.yaml in DAGSTER_HOME: that repeats killed runs.
"""

import os
from datetime import UTC, datetime

import dagster as dg
from run_hour import run

from tidegauge.tables import intervals

TABLE, LOG = os.environ["TABLE"], os.environ["LOG"]
EVERY = int(os.environ.get("EVERY", "30"))
START = datetime(2026, 1, 5, tzinfo=UTC)
# In UTC: a local hour that summer time repeats would need a key of its own. Days may be local, with
# intervals(by="1 day", zone=…) and DailyPartitionsDefinition(timezone=…) of one zone.
hours = dg.HourlyPartitionsDefinition(start_date=START, timezone="UTC")


@dg.asset(partitions_def=hours)
def hourly(context: dg.AssetExecutionContext) -> None:
    """Run the job of one hour."""
    window = context.partition_time_window
    version = context.run.tags["tidegauge/version"]  # a partition has no place for it
    run(TABLE, LOG, window.start.isoformat(), window.end.isoformat(), version)


@dg.sensor(
    target=[hourly],
    minimum_interval_seconds=EVERY,
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def complete_hours(context: dg.SensorEvaluationContext) -> dg.SensorResult:
    """Ask for what is complete; Dagster stores the cursor together with the requests."""
    found = intervals(
        TABLE,
        since=context.cursor,
        event_time="t",
        # One late row from before the first partition would fail the sensor at each tick.
        start=START,
    )
    return dg.SensorResult(
        cursor=found.cursor,
        run_requests=[
            dg.RunRequest(
                # With the version: a key is used once for ever, and the hour may have to run again.
                run_key=f"{one.start}@{found.version}",
                partition_key=datetime.fromtimestamp(one.start / 1000, UTC).strftime(
                    "%Y-%m-%d-%H:%M"
                ),
                tags={"tidegauge/version": str(found.version)},
            )
            for one in found.new + found.again
        ],
    )


defs = dg.Definitions(assets=[hourly], sensors=[complete_hours])
