"""Many reports in one request: each part goes to who holds its streams, results in order."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controller.http.forwarding import NOBODY, Forwarding, refuse
from controller.http.note_times import PATH
from controller.http.peers import PassedOn, Peer, Peers, is_passed_on
from controller.http.plain import read_body, send_json
from controller.http.problems import send_problem
from controller.schema import streams
from controller.service import Service
from tidegauge.errors import ProblemError, UnavailableError
from tidegauge.names import StreamName

_OK = 200
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
            request = PassedOn(scope, await read_body(receive, self._limit), receive)
            named = _streams(request.body)
            if all(self._is_here(one) for one in set(named)):
                await self._app(scope, request.replay(), send)
            elif is_passed_on(scope):
                await self._answer_all(request, named, send)
            else:
                results = await self._in_parts(request, named)
                await send_json(send, orjson.dumps({"results": results}))
        except UnavailableError as error:
            await refuse(error, send)
        except ProblemError as error:
            await send_problem(send, error)

    def _is_here(self, stream: str) -> bool:
        name = _name(stream)
        return name is None or self._forwarding.holds(streams, name)

    async def _answer_all(self, request: PassedOn, named: list[str], send: Send) -> None:
        """Answer what was passed on, once all of it is here; else nothing of it is done."""
        for place in (await self._places(named, anew=True)).values():
            if isinstance(place, ProblemError):
                raise place
            if place is not None:
                raise UnavailableError(NOBODY)
        await self._app(request.scope, request.replay(), send)

    async def _in_parts(self, request: PassedOn, named: list[str]) -> _Results:
        """Ask the holders for their parts, again where one had moved and nothing was done."""
        reports = orjson.loads(request.body)["reports"]
        results: _Results = [None] * len(reports)
        pending, anew = list(range(len(reports))), False
        ask = partial(self._ask, request, deadline=self._forwarding.deadline())
        while pending:
            parts = await self._parts(named, pending, anew=anew)
            asked = [
                ask(place, [reports[at] for at in numbers]) for place, numbers in parts.items()
            ]
            pending, anew = [], True
            for numbers, answers in zip(
                parts.values(), await asyncio.gather(*asked), strict=True
            ):
                if answers is None:
                    pending += numbers
                    continue
                for at, answer in zip(numbers, answers, strict=True):
                    results[at] = answer
            pending.sort()
        return results

    async def _parts(
        self, named: list[str], pending: list[int], *, anew: bool
    ) -> dict[_Place, list[int]]:
        """Divide what is pending among those who answer for it."""
        places = await self._places([named[at] for at in pending], anew=anew)
        parts: dict[_Place, list[int]] = {}
        for at in pending:
            parts.setdefault(places[named[at]], []).append(at)
        return parts

    async def _places(self, named: Iterable[str], *, anew: bool) -> dict[str, _Place]:
        distinct = list(dict.fromkeys(named))
        found = await asyncio.gather(*(self._find(one, anew=anew) for one in distinct))
        return dict(zip(distinct, found, strict=True))

    async def _find(self, stream: str, *, anew: bool) -> _Place:
        name = _name(stream)
        try:
            if name is not None:
                return await self._forwarding.find(streams, name, anew=anew)
        except ProblemError as error:
            return error
        return None

    async def _ask(
        self, whole: PassedOn, place: _Place, reports: list[Any], *, deadline: float
    ) -> _Results | None:
        """Ask for some of the results; a refusal of all of them is one for each.

        Returns None, after a moment, if nothing was done: somebody else is to be asked.
        """
        part = replace(whole, body=orjson.dumps({"reports": reports}))
        answer = _Answer()
        try:
            if isinstance(place, ProblemError):
                raise place
            if place is None:
                await self._app(part.scope, part.replay(), answer.send)
            elif not await self._peers.ask(place, part, answer.send):
                await self._forwarding.await_news(place, deadline=deadline)
                return None
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
