"""Plays a conformance case against a service, over HTTP.

A case without scaling has an external log. One with scaling has an embedded one, whose segments
are sealed at their tails: so many events are appended to each segment, once it is there, as the
case will say that it has. Numbers of segments are the service's own.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from itertools import count, groupby
from time import monotonic
from typing import Any

import httpx
import pytest

from controller.clocks import Clocks
from controller.streams.stream import StreamState
from tests.conformance.runner import OFF, Step, kind_of
from tests.service.api import Api
from tidegauge.aggregation.writers import Now
from tidegauge.names import key_hash
from tidegauge.wire.events import NDJSON

_NEVER_S = 1e6
"""A timer can still be set for it."""


@dataclass
class HandClock:
    """Both clocks of a service as one number; passes run in each transaction, or in none."""

    now_ms: int = 0
    passes: bool = False

    def set(self, now_ms: int, *, passes: bool = False) -> None:
        """Let it be a moment, and passes run or not."""
        self.now_ms, self.passes = now_ms, passes

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Give every service in this process this clock."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Clocks, "now", lambda _: Now(self.now_ms, self.now_ms))
            earliest_s = property(lambda _: -1.0 if self.passes else monotonic() + _NEVER_S)
            patch.setattr(StreamState, "_earliest_pass", earliest_s)
            yield


class Played:
    """A case on a stream of its own; `play` it."""

    def __init__(self, api: Api, clock: HandClock, case: Step) -> None:
        self._api = copy(api)
        self._api.name = f"cases/{case['name']}"
        self._api.path = f"/v1/streams/{self._api.name}"
        self._clock = clock
        self._case = case
        self._steps: list[Step] = case["steps"]
        self._settings = OFF | case["config"]
        self._revision = 0
        self._watermark: int | None = None
        self._incarnations: dict[str, int] = {}
        self._numbers = {str(one["number"]): str(one["number"]) for one in case["segments"]}
        """Of the service, by those of the case."""
        self._lengths: dict[str, int] = {}
        clock.set(self._steps[0]["at_ms"])
        self._create()

    def _create(self) -> None:
        segments = self._case["segments"]
        log = "external"
        if _scales(self._case):
            log = "embedded"
            self._lengths = dict(_lengths(self._steps))
        settings = {"log": log, "segments": len(segments)} | self._settings
        self._stream = self._api.create(**settings)["stream_id"]
        for segment in segments:
            self._fill(segment)

    def play(self) -> None:
        """Make all calls, and compare their answers."""
        for (kind, at_ms), alike in groupby(
            self._steps, key=lambda step: (kind_of(step), step["at_ms"])
        ):
            self._clock.set(at_ms)
            if kind == "note":
                self._note(list(alike))
                continue
            for step in alike:
                getattr(self, f"_{kind}")(step)

    def _note(self, steps: list[Step]) -> None:
        """Send several in a row as one call, and one alone by the call for one."""
        notes = [
            step["note"] | {"position": self._said(step["note"]["position"])} for step in steps
        ]
        if len(notes) == 1:
            writer = notes[0]["writer"]
            body = {name: value for name, value in notes[0].items() if name != "writer"}
            results = [self._answer(self._post(writer, "note-time", body))]
        else:
            reports = [{"stream": self._api.name, **note} for note in notes]
            answer = self._api.client.post("/v1/note-times", json={"reports": reports})
            results = answer.raise_for_status().json()["results"]
        for note, result, step in zip(notes, results, steps, strict=True):
            assert result.get("code", "accepted") == step["result"], (step, result)
            if step["result"] == "accepted":
                self._check_facts(result)
                self._raise_incarnation(note["writer"], note.get("incarnation") or 0)

    def _register(self, step: Step) -> None:
        given = {} if "live" in step or "time" not in step else {"time": step["time"]}
        answer = self._answer(self._post(step["register"], "register", given))
        assert answer.get("code", "accepted") == step.get("result", "accepted"), (step, answer)
        if "code" in answer:
            return
        self._check_facts(answer)
        assert answer["incarnation"] == step["incarnation"], (step, answer)
        self._raise_incarnation(step["register"], step["incarnation"])
        timeout_ms = self._settings["aggregation_timeout_ms"]
        assert answer["beat_ms"] == (None if timeout_ms is None else timeout_ms // 3)
        if "live" in step:
            told = answer["time"], answer["state"] == "joining"
            assert told == (step["time"], step["live"]), (step, answer)

    def _leave(self, step: Step) -> None:
        names = step.keys() & {"time", "position", "incarnation"}
        incarnation = {"incarnation": self._incarnations.get(step["leave"], 0)}
        body = incarnation | {name: step[name] for name in names}
        if "position" in body:
            body["position"] = self._said(body["position"])
        self._go_out(step, "leave", body, "left")

    def _expire(self, step: Step) -> None:
        self._go_out(step, "expire", None, "expired")

    def _go_out(self, step: Step, call: str, body: Step | None, state: str) -> None:
        answer = self._answer(self._post(step[call], call, body))
        assert answer.get("code", "ok") == step["result"], (step, answer)
        if "code" not in answer:
            assert (answer["state"], answer["writer"]) == (state, step[call])
            self._check_facts(answer)

    def _pass(self, step: Step) -> None:
        before = self._names_of_expired()
        marks = self._marks_of_a_pass(step["at_ms"])
        assert {
            "marks": marks,
            "expired": sorted(self._names_of_expired() - before),
            "watermark": self._watermark,
        } == step["pass"], step

    def _marks_of_a_pass(self, at_ms: int) -> list[Step]:
        """Let a pass run, with a change that changes nothing."""
        self._clock.set(at_ms, passes=True)
        self._api.change(mark_interval_ms=self._settings["mark_interval_ms"])
        self._clock.set(at_ms)
        return self._new_marks()

    def _new_marks(self) -> list[Step]:
        answer = self._api.get("marks", after=self._revision, limit=1_000)
        marks = answer["marks"]
        self._revision += len(marks)
        self._watermark = marks[-1]["lower"] if marks else self._watermark
        self._check_facts(answer)
        return [
            {"lower": one["lower"], "upper": one["upper"], "cut": self._heard(one["cut"])}
            for one in marks
        ]

    def _scale(self, step: Step) -> None:
        added = step["scale"]["segments"]
        answer = self._api.post(
            "scale",
            seal=[int(number) for number in self._said(step["scale"]["seal"])],
            ranges=[[one["low"], one["high"]] for one in added],
        )
        for wanted, one in zip(added, answer["segments"], strict=True):
            self._numbers[str(wanted["number"])] = str(one["number"])
            before = {str(number): 0 for number in one["predecessors"]}
            assert self._heard(before).keys() == set(map(str, wanted["predecessors"]))
            self._fill(wanted)

    def _seal(self, step: Step) -> None:
        answer = self._api.post("seal", position=self._said(step["seal"]))
        *_, mark = self._new_marks()
        assert (mark, answer["final"]) == (step["mark"], True)

    def _window(self, step: Step) -> None:
        """Ask for the window, and have a group begin there, if it can, and ask for its window."""
        expected, name = step["window"], self._api.name
        found = self._at(expected["position"])
        assert (found["lower"], found["upper"]) == (expected["lower"], expected["upper"])
        if any(at > self._lengths.get(n, at) for n, at in expected["position"].items()):
            return  # a group begins inside its streams
        group = f"/v1/reader-groups/{name}-{self._steps.index(step)}"
        start = {"streams": [name], "start_cut": {name: self._said(expected["position"])}}
        self._answer(self._api.client.put(group, json=start).raise_for_status())
        asked = self._api.client.get(f"{group}/time-window", params={"stream": name})
        window = self._answer(asked)
        assert (window["lower"], window["upper"]) == (expected["lower"], expected["upper"])

    def _at(self, position: Step) -> Any:
        said = ",".join(f"{n}:{offset}" for n, offset in self._said(position).items())
        return self._api.get("marks/at", position=said)

    def _fill(self, segment: Step) -> None:
        """Append as many events as the case will say that a segment has."""
        events = self._lengths.get(str(segment["number"]), 0)
        if not events:
            return
        keys = (f"key-{number}" for number in count())
        key = next(one for one in keys if segment["low"] <= key_hash(one) < segment["high"])
        appended = self._api.client.post(
            f"{self._api.path}/events",
            content=f'{{"key": "{key}", "value": ""}}\n' * events,
            headers={"content-type": NDJSON},
        )
        position = appended.raise_for_status().json()["position"]
        assert self._heard(position) == {str(segment["number"]): events}

    def _said(self, position: Step) -> Step:
        """Name segments as the service does."""
        return {self._numbers.get(number, number): at for number, at in position.items()}

    def _heard(self, position: Step) -> Step:
        """Name segments as the case does."""
        numbers = {ours: theirs for theirs, ours in self._numbers.items()}
        return {numbers[number]: at for number, at in position.items()}

    def _post(self, writer: str, call: str, body: Step | None) -> httpx.Response:
        return self._api.client.post(f"{self._api.path}/writers/{writer}/{call}", json=body)

    @staticmethod
    def _answer(response: httpx.Response) -> Any:
        answer = response.json()
        assert response.is_success or "code" in answer, answer
        return answer

    def _check_facts(self, answer: Step) -> None:
        assert (answer["stream_id"], answer["watermark"]) == (self._stream, self._watermark)

    def _raise_incarnation(self, writer: str, incarnation: int) -> None:
        self._incarnations[writer] = max(incarnation, self._incarnations.get(writer, 0))

    def _names_of_expired(self) -> set[str]:
        answer = self._api.get("writers", state="expired", limit=1_000)
        return {one["writer"] for one in answer["writers"]}


def _scales(case: Step) -> bool:
    return any("scale" in step for step in case["steps"])


def _lengths(steps: list[Step]) -> dict[str, int]:
    """Find how many events a case says that its segments have."""
    named: dict[str, int] = {}
    ends: dict[str, int] = {}
    for step in steps:
        if "scale" in step:
            ends |= step["scale"]["seal"]
        if "seal" in step:
            ends |= step["seal"]
        for number, offset in _offsets(step):
            named[number] = max(offset, named.get(number, 0))
    return named | ends


def _offsets(step: Step) -> Iterator[tuple[str, int]]:
    """Name the offsets of a step's positions."""
    said = step.get(kind_of(step))
    if not isinstance(said, dict):
        return
    positions = [said[name] for name in ("position", "cut") if name in said]
    for position in positions + said.get("positions", []):
        yield from position.items()
