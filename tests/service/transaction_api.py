"""Transactions and batches of jobs over HTTP, as their tests use them."""

from typing import Any, NamedTuple

from tests.service.log_api import Event, LogApi


class OpenTransaction(NamedTuple):
    """One transaction of a stream."""

    log: LogApi
    id: str

    @property
    def path(self) -> str:
        return f"{self.log.path}/transactions/{self.id}"

    def stage(self, events: list[Event], sequence: int, *, segment: int = 0) -> dict[str, Any]:
        headers = {"tidegauge-sequence": str(sequence)}
        return self.log.send(f"{self.path}/segments/{segment}/events", events, headers)

    def stage_lines(self, lines: str, sequence: int | None = None) -> dict[str, Any]:
        headers = {} if sequence is None else {"tidegauge-sequence": str(sequence)}
        return self.log.send(f"{self.path}/events", lines, headers)

    def post(self, call: str, **body: object) -> dict[str, Any]:
        response = self.log.client.post(f"{self.path}/{call}", json=body or None)
        return self.log.json(response)

    def commit(self, time: int | None = None) -> dict[str, Any]:
        return self.post("commit", **({} if time is None else {"time": time}))

    def describe(self) -> dict[str, Any]:
        return self.log.json(self.log.client.get(self.path))

    @property
    def state(self) -> str:
        state: str = self.describe()["state"]
        return state


def begin(log: LogApi, writer: str = "w", **wanted: object) -> OpenTransaction:
    return OpenTransaction(log, begun(log, writer, **wanted)["id"])


def begun(log: LogApi, writer: str = "w", **wanted: object) -> dict[str, Any]:
    body = {"writer": writer, "incarnation": 1} | wanted
    return log.json(log.client.post(f"{log.path}/transactions", json=body))


def listed(log: LogApi, **query: object) -> list[dict[str, Any]]:
    params = {name: str(value) for name, value in query.items()}
    answer = log.json(log.client.get(f"{log.path}/transactions", params=params))
    found: list[dict[str, Any]] = answer["transactions"]
    return found


def append_batch(
    log: LogApi,
    number: int,
    events: list[Event] | None = None,
    *,
    transactions: list[str] | None = None,
    writer: str = "job",
    **query: object,
) -> dict[str, Any]:
    params = {"writer": writer} | {name: str(value) for name, value in query.items()}
    path = f"{log.path}/batches/{number}"
    if events is not None:
        return log.send(path, events, {}, **params)
    body = {"transactions": transactions or []}
    return log.json(log.client.post(path, json=body, params=params))
