"""Processors of tests, in a module that executors import, too."""

from spark_source.processing import Context, Event, EventTimeProcessor
from spark_source.processing.keys import Key
from tests.spark.feed import DAY


class Timeouts(EventTimeProcessor):
    """Tells when a key was silent for 15 ms; times are less a day, as they are written."""

    output = "key string, at long, status string"

    def on_event(self, key: Key, event: Event, ctx: Context) -> None:  # noqa: ARG002 (as called)
        ctx.set_timer("timeout", ctx.time_ms + 15)

    def on_timer(self, key: Key, name: str, ctx: Context) -> None:  # noqa: ARG002 (as called)
        ctx.emit(key, ctx.time_ms - DAY, "OFF")
