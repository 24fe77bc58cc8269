"""Many reports in one request: each part goes to who holds its streams, results in order."""

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec
import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controller.http.forwarding import Forwarding, replay
from controller.http.note_times import PATH
from controller.http.peers import PassedOn, Peer, Peers, is_passed_on
from controller.http.plain import read_body, send_json
from controller.http.problems import send_problem
from controller.schema import streams
from controller.service import Service
from tidegauge.errors import ProblemError, UnavailableError
from tidegauge.names import StreamName

_OK = 200
_MOVED = "the stream moves to another controller"
_Place = Peer | ProblemError | None
_Results = list[Any]


class _Report(msgspec.Struct):
    stream: str


class _Reports(msgspec.Struct):
    reports: list[_Report]


_decode = msgspec.json.Decoder(_Reports).decode


class BulkForwarding:
    """Splits a request with many reports among the holders of their streams.

    Parameters
    ----------
    app
        Answers for what this controller holds.
    service
        Of this controller.
    forwarding
        Finds the holders.
    peers
        The way to the others.
    """

    def __init__(
        self, app: ASGIApp, service: Service, forwarding: Forwarding, peers: Peers
    ) -> None:
        self._app = app
        self._forwarding = forwarding
        self._peers = peers
        self._limit = service.settings.max_body_bytes

    def serves(self, path: str) -> bool:
        """Whether a path is this call's."""
        return path == PATH

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, in parts if need be."""
        try:
            body = await read_body(receive, self._limit)
        except ProblemError as error:
            await send_problem(send, error)
            return
        named = _streams(body)
        if all(self._is_here(one) for one in set(named)):
            await self._app(scope, replay(body), send)
        else:
            results = await self._in_parts(scope, body, named)
            await send_json(send, orjson.dumps({"results": results}))

    def _is_here(self, stream: str) -> bool:
        name = _name(stream)
        return name is None or self._forwarding.holds(streams, name)

    async def _in_parts(self, scope: Scope, body: bytes, named: list[str]) -> _Results:
        distinct = list(dict.fromkeys(named))
        passed_on = is_passed_on(scope)
        found = await asyncio.gather(
            *(self._find(one, passed_on=passed_on) for one in distinct)
        )
        places = dict(zip(distinct, found, strict=True))
        parts: dict[_Place, list[int]] = {}
        for at, stream in enumerate(named):
            parts.setdefault(places[stream], []).append(at)
        reports = orjson.loads(body)["reports"]
        answers = await asyncio.gather(
            *(
                self._ask(place, scope, [reports[at] for at in numbers])
                for place, numbers in parts.items()
            )
        )
        return _in_order(parts.values(), answers, len(named))

    async def _find(self, stream: str, *, passed_on: bool) -> _Place:
        name = _name(stream)
        try:
            found = None if name is None else await self._forwarding.find(streams, name)
        except ProblemError as error:
            return error
        return UnavailableError(_MOVED) if found and passed_on else found

    async def _ask(self, place: _Place, scope: Scope, reports: list[Any]) -> _Results:
        """Ask for some of the results; a refusal of all of them is one for each."""
        if isinstance(place, ProblemError):
            return [place.document()] * len(reports)
        request = PassedOn(scope, orjson.dumps({"reports": reports}))
        answer = _Answer()
        try:
            if place is None:
                await self._app(scope, replay(request.body), answer.send)
            elif not await self._peers.ask(place, request, answer.send):
                raise UnavailableError(_MOVED)
        except ProblemError as error:
            return [error.document()] * len(reports)
        document = orjson.loads(answer.body)
        if answer.status == _OK:
            results: _Results = document["results"]
            return results
        return [document] * len(reports)


class _Answer:
    """Gathers what would be sent."""

    def __init__(self) -> None:
        self.status = 0
        self.body = b""

    async def send(self, message: Message) -> None:
        self.status = message.get("status", self.status)
        self.body += message.get("body", b"")


def _streams(body: bytes) -> list[str]:
    """Read which streams a body is about; nothing of one that the application will refuse."""
    try:
        return [report.stream for report in _decode(body).reports]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []


def _name(stream: str) -> StreamName | None:
    try:
        return StreamName.parse(stream)
    except ValueError:
        return None


def _in_order(parts: Iterable[list[int]], answers: list[_Results], count: int) -> _Results:
    results: _Results = [None] * count
    for numbers, answer in zip(parts, answers, strict=True):
        for at, result in zip(numbers, answer, strict=True):
            results[at] = result
    return results
