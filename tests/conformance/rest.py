"""Plays a conformance case against a running service, over HTTP.

The clocks of a case are its own, and those of a service go on. So a case can be said over REST if
no clock matters in it: if it holds when all its steps are at one moment, whichever that is. Its
settings are made so long then that nothing runs out meanwhile.

There is no pass between the steps of a case. So before the first mark there are never writers
enough for one, and then the interval of marks is never over, until the case asks for a pass.
"""

from itertools import groupby
from typing import Any

import httpx

from tests.conformance.runner import OFF, Step, kind_of, run_case
from tests.server import Api

_NOT_A_CALL = {"scale", "compare", "join", "count"}
"""Segments of an external log are not scaled, and there is no call for the lattice alone."""
_MOMENTS_MS = (0, 10**12)
_LONGER = 3_600_000
_SPANS = ("aggregation_timeout_ms", "hold_limit_ms", "writer_retention_ms")
_NO_PASS = {"min_writers": 10_000_000, "mark_interval_ms": 86_400_000}


def can_be_said(case: Step) -> bool:
    """Tell whether a case has only calls of the API, and no clock matters in it."""
    if _NOT_A_CALL & {kind_of(step) for step in case["steps"]}:
        return False
    return all(_holds_at(case, moment) for moment in _MOMENTS_MS)


def _holds_at(case: Step, moment_ms: int) -> bool:
    try:
        run_case(case | {"steps": [{**one, "at_ms": moment_ms} for one in case["steps"]]})
    except AssertionError:
        return False
    return True


class Played:
    """A case on a stream of its own; `play` it."""

    def __init__(self, api: Api, case: Step) -> None:
        self._api = api
        self._steps: list[Step] = case["steps"]
        self._settings = OFF | case["config"]
        self._revision = 0
        self._watermark: int | None = None
        self._incarnations: dict[str, int] = {}
        self._expired: set[str] = set()
        api.name = f"cases/{case['name']}"
        api.path = f"/v1/streams/{api.name}"
        for name in _SPANS:
            self._settings[name] = self._settings[name] and self._settings[name] * _LONGER
        count = len(case["segments"])
        wanted = self._settings | _NO_PASS
        self._stream = api.create(segments=count, max_segments=count, **wanted)["stream_id"]

    def play(self) -> None:
        """Make all calls, and compare their answers."""
        for kind, steps in groupby(self._steps, key=kind_of):
            if kind == "note":
                self._note(list(steps))
                continue
            for step in steps:
                getattr(self, f"_{kind}")(step)

    def _note(self, steps: list[Step]) -> None:
        """Send several in a row as one call, and one alone by the call for one."""
        notes = [step["note"] for step in steps]
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
        self._go_out(step, "leave", incarnation | {name: step[name] for name in names}, "left")

    def _expire(self, step: Step) -> None:
        self._go_out(step, "expire", None, "expired")

    def _go_out(self, step: Step, call: str, body: Step | None, state: str) -> None:
        answer = self._answer(self._post(step[call], call, body))
        assert answer.get("code", "ok") == step["result"], (step, answer)
        if "code" not in answer:
            assert (answer["state"], answer["writer"]) == (state, step[call])
            self._check_facts(answer)
            self._expired = self._names_of_expired()

    def _pass(self, step: Step) -> None:
        before = self._expired
        marks = self._pass_now()
        assert {
            "marks": marks,
            "expired": sorted(self._expired - before),
            "watermark": self._watermark,
        } == step["pass"], step

    def _pass_now(self) -> list[Step]:
        self._api.change(min_writers=self._settings["min_writers"], mark_interval_ms=0)
        marks = self._new_marks()
        self._api.change(**_NO_PASS)
        self._expired = self._names_of_expired()
        return marks

    def _new_marks(self) -> list[Step]:
        answer = self._api.get("marks", after=self._revision, limit=1_000)
        marks = answer["marks"]
        self._revision += len(marks)
        self._watermark = marks[-1]["lower"] if marks else self._watermark
        self._check_facts(answer)
        return [{name: one[name] for name in ("lower", "upper", "cut")} for one in marks]

    def _seal(self, step: Step) -> None:
        self._pass_now()
        answer = self._api.post("seal", position=step["seal"])
        *_, mark = self._new_marks()
        assert (mark, answer["final"]) == (step["mark"], True)

    def _window(self, step: Step) -> None:
        """Have a group begin there, and ask for its window."""
        expected, name = step["window"], self._api.name
        group = f"/v1/reader-groups/{name}-{self._steps.index(step)}"
        start = {"streams": [name], "start_cut": {name: expected["position"]}}
        self._answer(self._api.client.put(group, json=start))
        asked = self._api.client.get(f"{group}/time-window", params={"stream": name})
        window = self._answer(asked)
        assert (window["lower"], window["upper"]) == (expected["lower"], expected["upper"])

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
