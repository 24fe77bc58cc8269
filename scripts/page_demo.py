"""A set of streams of every kind, for pictures of the page; it runs until it is killed.

``python scripts/page_demo.py URL``
"""

import argparse
import random
import time
from collections.abc import Iterator
from typing import Any

import httpx

_TURN_S = 1.0
_Streams = dict[str, dict[str, Any]]
_STREAMS: _Streams = {
    "city/rides": {"segments": 6, "aggregation_timeout_ms": 90_000},
    "demo/scaled": {"segments": 2},
    "iot/gone": {"log": "external", "segments": 3, "aggregation_timeout_ms": None},
    "iot/meters": {"log": "external", "segments": 12, "hold_limit_ms": 86_400_000},
    "iot/seconds": {"log": "external", "segments": 1},
    "lab/backfill": {"log": "external", "segments": 2},
    "lab/steps": {"segments": 2, "max_future_skew_ms": None, "mark_resolution_ms": 0},
    "lab/trial": {"segments": 1, "min_writers": 3},
    "shop/night": {"segments": 1},
    "shop/orders": {"segments": 4},
    "shop/payments": {"segments": 2},
    "shop/returns": {"segments": 1},
    "shop/unused": {"segments": 1},
}
_GROUPS = {
    "city/billing": ["city/rides"],
    "city/forgotten": ["city/rides"],
    "iot/alarms": ["iot/meters"],
    "shop/reports": ["shop/orders", "shop/payments"],
}


class Demo:
    """Writers and readers of the set, a turn a second."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self._random = random.Random(7)
        self._began_s = time.time()
        self._turn = 0

    def prepare(self) -> None:
        """Make streams and groups."""
        for name, settings in _STREAMS.items():
            self._call("PUT", f"/v1/streams/{name}", settings)
        for name, streams in _GROUPS.items():
            self._call("PUT", f"/v1/reader-groups/{name}", {"streams": streams})
        for reader in ("worker-1", "worker-2", "worker-3"):
            self._call("POST", f"/v1/reader-groups/city/billing/readers/{reader}")
        for reader in ("report-1", "report-2"):
            self._call("POST", f"/v1/reader-groups/shop/reports/readers/{reader}")
        for group in ("city/billing", "shop/reports"):
            self._share(group)

    def _share(self, group: str) -> None:
        """Give the segments of a group to its readers, in turn."""
        path = f"/v1/reader-groups/{group}/state"
        answer = self._client.get(path)
        state = answer.json()
        readers = sorted(state["readers"])
        for stream, position in state["unassigned"].items():
            for place, (number, offset) in enumerate(position.items()):
                reader = state["readers"][readers[place * len(readers) // len(position)]]
                reader["owned"].setdefault(stream, {})[number] = offset
        body = state | {"unassigned": {}}
        headers = {"if-match": answer.headers["etag"]}
        self._client.put(path, json=body, headers=headers).raise_for_status()

    def run(self) -> None:
        """Go on for ever."""
        while True:
            began = time.monotonic()
            self.turn()
            time.sleep(max(0.0, _TURN_S - (time.monotonic() - began)))

    def turn(self) -> None:
        """Do what happens in a second."""
        now_ms = round(time.time() * 1_000)
        self._write(now_ms)
        self._client.post("/v1/note-times", json={"reports": list(self._reports(now_ms))})
        self._grow()
        self._read()
        self._turn += 1

    def _write(self, now_ms: int) -> None:
        for name, events in (("city/rides", 120), ("demo/scaled", 40), ("shop/orders", 30)):
            lines = "\n".join(
                f'{{"key": "k{self._random.randrange(500)}", "event_time": {now_ms}, "value": "x"}}'
                for _ in range(events)
            )
            self._client.post(
                f"/v1/streams/{name}/events",
                content=lines,
                headers={"content-type": "application/x-ndjson"},
                params={"writer": "appender", "note_time": now_ms - 1_500},
            )

    def _reports(self, now_ms: int) -> Iterator[dict[str, Any]]:
        passed_s = time.time() - self._began_s
        for n in range(1, 31):
            is_stuck = n == 7 and passed_s % 120 > 50
            delay_ms = 4_000 + 6_000 * (n % 5) if n != 13 else 25_000
            if not is_stuck and (self._turn + n) % 3 == 0:
                yield self._note("city/rides", f"gateway-{n:02}", now_ms - delay_ms)
        for n in range(1, 6):
            yield self._note("shop/orders", f"till-{n}", now_ms - 700 - 150 * n)
            yield self._note("shop/payments", f"bank-{n}", now_ms - 900 * n)
        yield self._note("lab/steps", "trainer", 10 * self._turn)
        yield self._note("lab/steps", "evaluator", 10 * self._turn - 3)
        offset = 50 * self._turn
        start_ms = round(self._began_s * 1_000) - 86_400_000
        yield self._note(
            "lab/backfill", "loader", start_ms + round(passed_s * 20_000), {"0": offset}
        )
        for n in range(8):
            position = {"0": offset, str(n): offset}
            yield self._note("iot/meters", f"meter-{n}", now_ms - 1_000 * n, position)
        yield self._note("iot/gone", "truck-2", now_ms, {"0": offset})
        if self._turn == 0:
            yield self._note("iot/meters", "offline-hub", now_ms - 400_000, {"0": 1})
            yield self._note("iot/gone", "truck-1", now_ms - 3_000_000, {"0": 1})
            yield self._note("iot/seconds", "sensor-1", now_ms // 1_000, {"0": 1})
            yield self._note("shop/night", "till", now_ms - 1_200_000)
            yield self._note("shop/returns", "till", now_ms)
            yield self._note("lab/trial", "first", now_ms)
        for n in range(3):
            yield self._note("demo/scaled", f"part-{n}", now_ms - 800 * n - 1_000)

    def _grow(self) -> None:
        """Split, merge, seal, and leave transactions open."""
        if self._turn == 4:
            self._scale("demo/scaled", [0], [[0, 0.25], [0.25, 0.5]])
        elif self._turn == 12:
            self._scale("demo/scaled", [1], [[0.5, 0.6], [0.6, 0.8], [0.8, 1]])
        elif self._turn == 20:
            self._scale("demo/scaled", [2, 3], [[0, 0.5]])
        elif self._turn == 6:
            self._call("POST", "/v1/streams/shop/returns/seal", {})
            self._begin("shop/payments", "bank-1")
            self._begin("shop/payments", "bank-2")
        elif self._turn == 30:
            self._call(
                "POST",
                "/v1/streams/demo/scaled/truncate",
                {"cut": {"4": 10, "1": 10}},
                must=False,
            )

    def _read(self) -> None:
        """Let two workers follow and one lag; a query reports its progress."""
        for group in ("city/billing", "shop/reports"):
            state = self._call("GET", f"/v1/reader-groups/{group}")["state"]
            tails = {
                stream: self._call("GET", f"/v1/streams/{stream}")["tail"]
                for stream in _GROUPS[group]
            }
            for name, one in state["readers"].items():
                path = f"/v1/reader-groups/{group}/readers/{name}"
                if name == "worker-3" and self._turn > 8:
                    self._call("POST", f"{path}/heartbeat", {"epoch": one["epoch"]}, must=False)
                    continue
                position = {
                    stream: {n: tails[stream][n] for n in owned}
                    for stream, owned in one["owned"].items()
                }
                body = {"epoch": one["epoch"], "position": position}
                self._call("POST", f"{path}/position", body, must=False)
        self._call(
            "POST",
            "/v1/reader-groups/shop/reports/progress",
            {
                "bound": round(time.time() * 1_000) - 9_000,
                "lag_ms": 4_000,
                "backlog": 1_250,
                "late": 37,
                "late_by_ms": 5_400,
                "late_writers": {"till-4": 29, "till-2": 8},
                "late_output": 12,
                "partially_late": 3,
                "state_bytes": 48_300_000,
            },
        )

    def _scale(self, stream: str, seal: list[int], ranges: list[list[float]]) -> None:
        self._call("POST", f"/v1/streams/{stream}/scale", {"seal": seal, "ranges": ranges})

    def _begin(self, stream: str, writer: str) -> None:
        self._call(
            "POST",
            f"/v1/streams/{stream}/transactions",
            {"writer": writer, "timeout_ms": 86_400_000},
        )

    @staticmethod
    def _note(
        stream: str, writer: str, at_ms: int, position: dict[str, int] | None = None
    ) -> dict[str, Any]:
        report: dict[str, Any] = {"stream": stream, "writer": writer, "time": at_ms}
        return report if position is None else report | {"position": position}

    def _call(self, method: str, path: str, body: object = None, *, must: bool = True) -> Any:  # noqa: ANN401 (JSON)
        answer = self._client.request(method, path, json=body)
        if must:
            answer.raise_for_status()
        return answer.json() if answer.content else None


def main() -> None:
    """Run the set against a service."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="of a service whose streams do not matter")
    with httpx.Client(base_url=parser.parse_args().url, timeout=30) as client:
        demo = Demo(client)
        demo.prepare()
        demo.run()


if __name__ == "__main__":
    main()
