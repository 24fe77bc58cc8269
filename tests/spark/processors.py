"""Processors of tests, in a module that executors import, too."""

from datetime import timedelta
from typing import ClassVar

from spark_source.processing import Context, Event, EventTimeProcessor, OpenContext
from spark_source.processing.keys import Key


class Timeouts(EventTimeProcessor):
    """Tells when a key was silent for 15 ms."""

    output = "key string, at timestamp, status string"

    def on_event(self, key: Key, event: Event, ctx: Context) -> None:  # noqa: ARG002 (as called)
        ctx.set_timer("timeout", ctx.time_ms + 15)

    def on_timer(self, key: Key, name: str, ctx: Context) -> None:  # noqa: ARG002 (as called)
        ctx.emit(key, ctx.time, "OFF")


class Visits(EventTimeProcessor):
    """Counts what a key shows, and tells of silence apart."""

    output = "key string, at timestamp, number long, seen array<string>"
    side_outputs: ClassVar = {"silent": "key string, since timestamp"}

    def open(self, ctx: OpenContext) -> None:
        self.seen = ctx.list("seen")

    def on_event(self, key: Key, event: Event, ctx: Context) -> None:
        self.seen.append(event.shown)
        ctx.emit(key, event.time, event.number, list(self.seen))
        ctx.set_timer("silent", ctx.time + timedelta(milliseconds=15))

    def on_timer(self, key: Key, name: str, ctx: Context) -> None:  # noqa: ARG002 (as called)
        ctx.emit_to("silent", key, ctx.time)
        self.seen.clear()


class Mistyped(EventTimeProcessor):
    """Emits what it does not declare."""

    output = "key string, at timestamp"

    def on_event(self, key: Key, event: Event, ctx: Context) -> None:  # noqa: ARG002 (as called)
        ctx.emit(key, "noon")


class Misspelt(Timeouts):
    """Declares columns that are none."""

    output = "key strin, at timestamp"


class MisspeltSide(Timeouts):
    """Declares columns of a further output that are none."""

    side_outputs: ClassVar = {"early": "a b c"}
