"""The processors that the vectors of event-time processing name, as their form describes them."""

from collections.abc import Callable
from typing import Any, ClassVar

from spark_source.processing import Context, Event, EventTimeProcessor, OpenContext
from spark_source.processing.keys import Key


class Echo(EventTimeProcessor):
    def on_event(self, key: Key, event: Event, ctx: Context) -> None:
        ctx.emit(key, ctx.time_ms, event.value)


class Timeout(EventTimeProcessor):
    def __init__(self, ms: int) -> None:
        self.ms = ms

    def on_event(self, key: Key, event: Event, ctx: Context) -> None:
        ctx.set_timer("timeout", ctx.time_ms + self.ms)

    def on_timer(self, key: Key, name: str, ctx: Context) -> None:
        ctx.emit(key, ctx.time_ms, "OFF")


class Telemetry(EventTimeProcessor):
    def __init__(self, ms: int) -> None:
        self.ms = ms

    def open(self, ctx: OpenContext) -> None:
        self.is_offline = ctx.value("is_offline")

    def on_event(self, key: Key, event: Event, ctx: Context) -> None:
        if self.is_offline.get():
            self.is_offline.clear()
            ctx.emit(key, ctx.time_ms, "online")
        ctx.set_timer("offline", ctx.time_ms + self.ms)

    def on_timer(self, key: Key, name: str, ctx: Context) -> None:
        self.is_offline.set(True)
        ctx.emit(key, ctx.time_ms, "offline")


class TwoTimers(EventTimeProcessor):
    def on_event(self, key: Key, event: Event, ctx: Context) -> None:
        ctx.set_timer("a", ctx.time_ms + 12)
        ctx.set_timer("b", ctx.time_ms + 11)

    def on_timer(self, key: Key, name: str, ctx: Context) -> None:
        ctx.emit(key, ctx.time_ms, name)


class Rearm(EventTimeProcessor):
    def __init__(self, ms: int, times: int | None = None) -> None:
        self.ms = ms
        self.times = times

    def open(self, ctx: OpenContext) -> None:
        self.left = ctx.value("left")

    def on_event(self, key: Key, event: Event, ctx: Context) -> None:
        self.left.set(self.times or None)
        ctx.set_timer("rearm", ctx.time_ms + self.ms)

    def on_timer(self, key: Key, name: str, ctx: Context) -> None:
        ctx.emit(key, ctx.time_ms, "rearm")
        left = self.left.get()
        if left is not None:
            self.left.set(left - 1 or None)
        if self.times is None or left is not None:
            ctx.set_timer("rearm", ctx.time_ms + self.ms)


class PingPong(EventTimeProcessor):
    def on_event(self, key: Key, event: Event, ctx: Context) -> None:
        ctx.emit(key, ctx.time_ms, "event")
        ctx.set_timer("ping", ctx.time_ms)

    def on_timer(self, key: Key, name: str, ctx: Context) -> None:
        ctx.emit(key, ctx.time_ms, name)
        ctx.set_timer("pong" if name == "ping" else "ping", ctx.time_ms)


class PastTimer(EventTimeProcessor):
    def on_event(self, key: Key, event: Event, ctx: Context) -> None:
        ctx.emit(key, ctx.time_ms, "event", event.value)
        ctx.set_timer("past", ctx.time_ms - 5)
        ctx.set_timer("tick", ctx.time_ms)

    def on_timer(self, key: Key, name: str, ctx: Context) -> None:
        ctx.emit(key, ctx.time_ms, name)
        if name == "past":
            ctx.set_timer("again", ctx.time_ms - 5)


class Delete(EventTimeProcessor):
    output = "key string, at bigint, name string"

    def on_event(self, key: Key, event: Event, ctx: Context) -> None:
        if event.value % 2:
            ctx.set_timer("x", ctx.time_ms + 10)
            ctx.set_timer("y", ctx.time_ms + 10)
            ctx.set_timer("z", ctx.time_ms + 20)
        else:
            ctx.delete_timer("z")
            ctx.delete_timer("absent")
            ctx.set_timer("x", ctx.time_ms + 10)

    def on_timer(self, key: Key, name: str, ctx: Context) -> None:
        ctx.emit(key, ctx.time_ms, name)
        if name == "x":
            ctx.delete_timer("y")
            ctx.delete_timer("x")


class Counter(EventTimeProcessor):
    def open(self, ctx: OpenContext) -> None:
        self.count = ctx.value("count")
        self.values = ctx.list("values")
        self.remainders = ctx.map("remainders")

    def on_event(self, key: Key, event: Event, ctx: Context) -> None:
        count = self.count.get(0) + 1
        self.count.set(count)
        self.values.append(event.value)
        remainder = event.value % 3
        self.remainders[remainder] = self.remainders.get(remainder, 0) + 1
        pairs = [list(pair) for pair in sorted(self.remainders.items())]
        ctx.emit(key, ctx.time_ms, count, list(self.values), pairs)
        if count == 5:
            self.count.clear()
            self.values.clear()
            self.remainders.clear()


class Side(EventTimeProcessor):
    side_outputs: ClassVar = {"kth": "key string, at bigint, value bigint"}

    def __init__(self, k: int) -> None:
        self.k = k

    def open(self, ctx: OpenContext) -> None:
        self.count = ctx.value("count")

    def on_event(self, key: Key, event: Event, ctx: Context) -> None:
        count = self.count.get(0) + 1
        self.count.set(count)
        ctx.emit(key, ctx.time_ms, event.value)
        if count == self.k:
            self.count.clear()
            ctx.emit_to("kth", key, ctx.time_ms, event.value)


PROCESSORS: dict[str, Callable[..., EventTimeProcessor]] = {
    "echo": Echo,
    "timeout": Timeout,
    "telemetry": Telemetry,
    "two_timers": TwoTimers,
    "rearm": Rearm,
    "ping_pong": PingPong,
    "past_timer": PastTimer,
    "delete": Delete,
    "counter": Counter,
    "side": Side,
}


def build_processor(case: dict[str, Any]) -> EventTimeProcessor:
    return PROCESSORS[case["processor"]](**case["args"])
