"""Processors of tests, in a module that executors import, too."""

from datetime import timedelta

from spark_source.processing import Context, Event, EventTimeProcessor, OpenContext
from spark_source.processing.keys import Key
from tests.spark.feed import DAY


class Timeouts(EventTimeProcessor):
    """Tells when a key was silent for 15 ms; times are less a day, as they are written."""

    output = "key string, at long, status string"

    def on_event(self, key: Key, event: Event, ctx: Context) -> None:  # noqa: ARG002 (as called)
        ctx.set_timer("timeout", ctx.time_ms + 15)

    def on_timer(self, key: Key, name: str, ctx: Context) -> None:  # noqa: ARG002 (as called)
        ctx.emit(key, ctx.time_ms - DAY, "OFF")


class OfflineKeys(EventTimeProcessor):
    """Tells when a key was silent for too long, and when it came back."""

    output = "key string, at timestamp, status string"

    def __init__(self, longest: timedelta) -> None:
        self.longest = longest

    def open(self, ctx: OpenContext) -> None:
        self.seen = ctx.value("seen")

    def on_event(self, key: Key, event: Event, ctx: Context) -> None:  # noqa: ARG002 (as called)
        if self.seen.get() == "offline":
            ctx.emit(key, ctx.time, "online")
        self.seen.set("online")
        ctx.set_timer("timeout", ctx.time + self.longest)

    def on_timer(self, key: Key, name: str, ctx: Context) -> None:  # noqa: ARG002 (as called)
        ctx.emit(key, ctx.time, "offline")
        self.seen.set("offline")
