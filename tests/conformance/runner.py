"""Runs one conformance case against the core.

``at_ms`` of a step is both clocks. A ``leave`` without incarnation speaks for the stored one.
Beyond the common form, which `more.json` needs: ``register`` without ``live`` may bring a ``time``, and have a ``result``
instead of an ``incarnation`` where it is refused; ``leave`` may have a ``time`` with a ``position``,
and an ``incarnation``, null for one that is left out.
"""

from collections.abc import Callable
from typing import Any

from tidegauge.aggregation.outcomes import Registration
from tidegauge.aggregation.settings import StreamSettings
from tidegauge.aggregation.writers import Now
from tidegauge.aggregator import Aggregator
from tidegauge.errors import ProblemError, UnknownWriterError
from tidegauge.lattice import count_between, covers, cut_of, join, precedes
from tidegauge.marks import Mark
from tidegauge.topology import KeyRange, Segment, Topology
from tidegauge.windows import time_window

Step = dict[str, Any]

OFF: Step = {
    "hold_limit_ms": None,
    "min_writers": 0,
    "mark_interval_ms": 0,
    "mark_resolution_ms": 0,
    "writer_retention_ms": None,
    "max_future_skew_ms": None,
}


def run_case(case: Step) -> None:
    runner = _Runner(case)
    for number, step in enumerate(case["steps"]):
        try:
            _STEPS[kind_of(step)](runner, step, Now(step["at_ms"], step["at_ms"]))
        except AssertionError as error:
            error.add_note(f"step {number} of {case['name']}: {step}")
            raise


def kind_of(step: Step) -> str:
    """Name what a step does."""
    return next(key for key in step if key in _STEPS)


class _Runner:
    def __init__(self, case: Step) -> None:
        settings = StreamSettings(**(OFF | case["config"]))
        topology = Topology(_segment(one) for one in case["segments"])
        self.aggregator = Aggregator("scope/stream", settings, topology)
        self.marks: list[Mark] = []

    @property
    def topology(self) -> Topology:
        return self.aggregator.topology

    def note(self, step: Step, now: Now) -> None:
        note = step["note"]
        result = _outcome(
            lambda: self.aggregator.note_time(
                note["writer"],
                note["time"],
                _position(note["position"]),
                incarnation=note.get("incarnation"),
                now=now,
            )
        )
        assert result == step["result"].replace("ok", "accepted")

    def register(self, step: Step, now: Now) -> None:
        writer = step["register"]
        given = None if "live" in step else step.get("time")
        told: list[Registration] = []

        def register() -> None:
            told.append(self.aggregator.register(writer, time=given, now=now))

        result = _outcome(register)
        assert result == step.get("result", "accepted")
        for answer in told:
            assert answer.incarnation == step["incarnation"]
            if "live" in step:
                assert (answer.time, answer.state == "joining") == (step["time"], step["live"])

    def leave(self, step: Step, now: Now) -> None:
        writer = step["leave"]

        def leave() -> None:
            stored = self.aggregator.incarnation(writer)
            self.aggregator.leave(
                writer,
                time=step.get("time"),
                position=_position(step.get("position", {})),
                incarnation=step.get("incarnation", stored),
                now=now,
            )

        assert _outcome(leave).replace("accepted", "ok") == step["result"]

    def expire(self, step: Step, now: Now) -> None:
        result = _outcome(lambda: self.aggregator.expire(step["expire"], now=now))
        assert result.replace("accepted", "ok") == step["result"]

    def run_pass(self, step: Step, now: Now) -> None:
        outcome = self.aggregator.run_pass(now)
        self.marks += outcome.marks
        assert {
            "marks": [_shown(mark) for mark in outcome.marks],
            "expired": outcome.expired,
            "watermark": self.aggregator.watermark,
        } == step["pass"]

    def scale(self, step: Step, _now: Now) -> None:
        scale = step["scale"]
        self.aggregator.change_topology(
            self.topology.scaled(
                _position(scale["seal"]), [_segment(one) for one in scale["segments"]]
            )
        )

    def seal(self, step: Step, now: Now) -> None:
        marks = self.aggregator.seal(_position(step["seal"]), now).marks
        self.marks += marks
        assert _shown(marks[-1]) == step["mark"]

    def window(self, step: Step, _now: Now) -> None:
        expected = step["window"]
        window = time_window(self.topology, self.marks, _position(expected["position"]))
        assert (window.lower, window.upper) == (expected["lower"], expected["upper"])

    def compare(self, step: Step, _now: Now) -> None:
        expected = step["compare"]
        pair = _position(expected["position"]), _position(expected["cut"])
        assert covers(self.topology, *pair) == expected["covers"]
        assert precedes(self.topology, *pair) == expected["precedes"]

    def join(self, step: Step, _now: Now) -> None:
        positions = [_position(one) for one in step["join"]["positions"]]
        cut = cut_of(self.topology, join(self.topology, positions))
        assert cut == _position(step["join"]["cut"])

    def count(self, step: Step, _now: Now) -> None:
        expected = step["count"]
        start, end = _position(expected["from"]), _position(expected["to"])
        assert count_between(self.topology, start, end) == expected["events"]


_STEPS: dict[str, Callable[[_Runner, Step, Now], None]] = {
    "note": _Runner.note,
    "register": _Runner.register,
    "leave": _Runner.leave,
    "expire": _Runner.expire,
    "pass": _Runner.run_pass,
    "scale": _Runner.scale,
    "seal": _Runner.seal,
    "window": _Runner.window,
    "compare": _Runner.compare,
    "join": _Runner.join,
    "count": _Runner.count,
}


def _outcome(call: Callable[[], object]) -> str:
    try:
        call()
    except UnknownWriterError:
        return "unknown_writer"
    except ProblemError as error:
        return error.code
    return "accepted"


def _position(raw: dict[str, int]) -> dict[int, int]:
    return {int(number): offset for number, offset in raw.items()}


def _segment(raw: Step) -> Segment:
    return Segment(raw["number"], KeyRange(raw["low"], raw["high"]), tuple(raw["predecessors"]))


def _shown(mark: Mark) -> Step:
    return {
        "lower": mark.lower,
        "upper": mark.upper,
        "cut": {str(number): offset for number, offset in mark.cut.items()},
    }
