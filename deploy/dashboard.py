"""The dashboard of Grafana: ``python -m deploy.dashboard`` writes it anew."""

from itertools import count
from pathlib import Path

from grafana_foundation_sdk.builders.dashboard import Dashboard, QueryVariable, Row
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.builders.timeseries import Panel
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import DataSourceRef, VariableRefresh

PATH = Path(__file__).parent / "grafana" / "tidegauge.json"
_PROMETHEUS = DataSourceRef(type_val="prometheus", uid="prometheus")
_A_THIRD = 8  # of the 24 columns
_CHOSEN = '{stream=~"$stream"}'
_NOTED = '{route=~".*/note-times?"}'
_ACCEPTED = '{outcome="accepted"}'
_FAILED = '{status="5xx"}'
_REFUSED = '{outcome!="accepted"}'
# Other programs tell of their processes, too.
_OURS = "and on (job, instance) tidegauge_build_info"
_PERIOD = "[$__rate_interval]"


def _panel(title: str, unit: str, queries: dict[str, str], description: str = "") -> Panel:
    """Draw what some queries ask, each by its legend."""
    panel = Panel().title(title).description(description).unit(unit).axis_soft_min(0)
    panel = panel.span(_A_THIRD).datasource(_PROMETHEUS)
    for number, (legend, query) in enumerate(queries.items()):
        target = Dataquery().expr(query).legend_format(legend).ref_id("ABCDEF"[number])
        panel = panel.with_target(target)
    return panel


def _quantiles(histogram: str, matching: str = "") -> dict[str, str]:
    rates = f"sum by (le) (rate({histogram}_bucket{matching}{_PERIOD}))"
    return {
        "p50": f"histogram_quantile(0.5, {rates})",
        "p99": f"histogram_quantile(0.99, {rates})",
    }


def _rate(counter: str, matching: str = "") -> str:
    return f"rate({counter}{matching}{_PERIOD})"


ROWS: dict[str, list[Panel]] = {
    "Streams": [
        _panel(
            "Watermark lag",
            "s",
            {
                "{{stream}}": "topk(20, max by (stream) "
                f"(tidegauge_stream_watermark_lag_seconds{_CHOSEN}))"
            },
            "Wall clock minus watermark. It rises, too, while nobody has anything to say.",
        ),
        _panel(
            "Held or silent",
            "s",
            {
                "{{stream}}": f"max by (stream) (tidegauge_stream_held_seconds{_CHOSEN}) > 0",
                "{{stream}} silent": "max by (stream) "
                f"(tidegauge_stream_silent_seconds{_CHOSEN}) > 0",
            },
            "How long a writer has waited for another one: `tidegauge why` names it. How long no "
            "writer has reported, so that no writer expires.",
        ),
        _panel(
            "Share of the time held",
            "percentunit",
            {
                "{{stream}}": "topk(20, sum by (stream) "
                f"({_rate('tidegauge_stream_hold_seconds_total', _CHOSEN)})) > 0"
            },
            "How much of the time writers held the watermark for longer than usual: "
            "`tidegauge why STREAM --since 12h` names them.",
        ),
        _panel("Writers", "short", {"{{state}}": "sum by (state) (tidegauge_writers)"}),
        _panel(
            "Marks and expirations",
            "ops",
            {
                "marks": f"sum({_rate('tidegauge_marks_total')})",
                "expirations": f"sum({_rate('tidegauge_expirations_total')})",
            },
        ),
        _panel(
            "Reports above the watermark",
            "short",
            {
                "{{stream}}": f"topk(20, max by (stream) (tidegauge_stream_kept_reports{_CHOSEN}))"
            },
        ),
        _panel(
            "Readers",
            "short",
            {"{{group}}": "max by (group) (tidegauge_group_readers)"},
            "Readers of each group; a query that is a group counts as one.",
        ),
    ],
    "Queries": [
        _panel(
            "Lag in event time",
            "s",
            {"{{group}}": "topk(20, max by (group) (tidegauge_group_lag_seconds))"},
            "From the bound of a query to the watermark. Gone 5 minutes after the query last spoke.",
        ),
        _panel(
            "Late rows",
            "short",
            {
                "{{group}} {{writer}}": "sum by (group, writer) "
                f"(increase(tidegauge_group_late_writer_rows_total{_PERIOD})) > 0",
                "{{group}}": "sum by (group) "
                f"(increase(tidegauge_group_late_rows_total{_PERIOD})) > 0",
            },
            "Rows whose writers broke a promise, came late to the stream or had expired.",
        ),
        _panel(
            "Backlog and state",
            "short",
            {
                "{{group}} rows": "topk(20, max by (group) (tidegauge_group_backlog_rows))",
                "{{group}} bytes": "topk(20, max by (group) (tidegauge_group_state_bytes))",
            },
        ),
    ],
    "Reports": [
        _panel(
            "Reports accepted",
            "ops",
            {"accepted": f"sum({_rate('tidegauge_reports_total', _ACCEPTED)})"},
        ),
        _panel(
            "Reports refused",
            "ops",
            {"{{outcome}}": f"sum by (outcome) ({_rate('tidegauge_reports_total', _REFUSED)})"},
        ),
        _panel(
            "Latency of note-time",
            "s",
            _quantiles("tidegauge_http_request_duration_seconds", _NOTED),
        ),
    ],
    "Controllers": [
        _panel(
            "Holds the database",
            "short",
            {"{{instance}}": "tidegauge_holds_database"},
            "1 at the controller that is certain to hold the database, 0 at those that stand by.",
        ),
        _panel(
            "Waiting",
            "short",
            {
                "{{instance}} {{queue}}": "tidegauge_queue_length",
                "{{instance}} long polls": "tidegauge_long_polls",
            },
        ),
        _panel(
            "Calls answered with 5xx",
            "ops",
            {
                "{{route}}": "sum by (route) "
                f"({_rate('tidegauge_http_request_duration_seconds_count', _FAILED)})",
                "defects": f"sum({_rate('tidegauge_defects_total')})",
            },
        ),
        _panel("Memory", "bytes", {"{{instance}}": f"process_resident_memory_bytes {_OURS}"}),
        _panel(
            "Processor",
            "percentunit",
            {"{{instance}}": f"{_rate('process_cpu_seconds_total')} {_OURS}"},
        ),
        _panel("Open files", "short", {"{{instance}}": f"process_open_fds {_OURS}"}),
    ],
    "Database": [
        _panel(
            "Latency of a transaction", "s", _quantiles("tidegauge_commit_duration_seconds")
        ),
        _panel(
            "Transactions",
            "ops",
            {
                "committed": f"sum({_rate('tidegauge_commit_duration_seconds_count')})",
                "failed": f"sum({_rate('tidegauge_commit_failures_total')})",
            },
        ),
        _panel(
            "Changes that shared a transaction",
            "short",
            _quantiles("tidegauge_batch_changes"),
        ),
    ],
}


def draw() -> str:
    """Write the dashboard as Grafana reads it."""
    dashboard = (
        Dashboard("Tidegauge")
        .uid("tidegauge")
        .tags(["tidegauge"])
        .time("now-1h", "now")
        .refresh("10s")
        .readonly()
        .with_variable(
            QueryVariable("stream")
            .label("Stream")
            .datasource(_PROMETHEUS)
            .query("label_values(tidegauge_stream_kept_reports, stream)")
            .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
            .multi(True)
            .include_all(True)
            .all_value(".*")
        )
    )
    numbers = count(1)
    for title, panels in ROWS.items():
        dashboard = dashboard.with_row(Row(title).id(next(numbers)))
        for panel in panels:
            dashboard = dashboard.with_panel(panel.id(next(numbers)))
    return JSONEncoder(sort_keys=True, indent=2).encode(dashboard.build()) + "\n"


if __name__ == "__main__":
    PATH.write_text(draw())
