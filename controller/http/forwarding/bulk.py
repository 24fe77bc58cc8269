"""Many reports in one request: each part goes to who holds its streams, results in order."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import msgspec
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controller.http.calls.note_times import PATH, check_call
from controller.http.forwarding.one import NOBODY, Forwarding, refuse
from controller.http.forwarding.peers import PassedOn, Peer, Peers, is_passed_on
from controller.http.messages.decoding import split_note_times
from controller.http.messages.plain import read_body, send_json
from controller.http.messages.problems import dump_problem, send_problem
from controller.schema import streams
from controller.service import Service
from tidegauge.errors import ProblemError, UnavailableError
from tidegauge.names import StreamName

_OK = 200
_Place: TypeAlias = Peer | ProblemError | None
_Raw: TypeAlias = msgspec.Raw | bytes
_Results: TypeAlias = Sequence[_Raw]


class _Report(NamedTuple):
    """One report, as it came.

    Attributes
    ----------
    stream
        What it is about; None if it does not say so, and is to be refused here.
    body
        All of it.
    """

    stream: str | None
    body: bytes


class _Plain(msgspec.Struct):
    stream: str


class _PlainReports(msgspec.Struct):
    reports: list[_Plain]


class _Named(msgspec.Struct):
    stream: Any = None


class _RawResults(msgspec.Struct):
    results: list[msgspec.Raw]


_decode_plain = msgspec.json.Decoder(_PlainReports).decode
_decode_named = msgspec.json.Decoder(_Named).decode
_decode_raw = msgspec.json.Decoder(msgspec.Raw).decode
_decode_results = msgspec.json.Decoder(_RawResults).decode
_NOT_PLAIN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


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
            check_call(scope)
            request = PassedOn(scope, await read_body(receive, self._limit), receive)
            is_here = self._holds_all_plainly(request.body)
            reports = [] if is_here else _split(request.body)
        except (ClientDisconnect, ProblemError) as error:
            await self._app(scope, _receive_nothing(error), send)  # it counts what it refuses
            return
        try:
            await self._answer(request, reports, send)
        except UnavailableError as error:
            await refuse(error, send)
        except ProblemError as error:
            await send_problem(send, error)

    def _holds_all_plainly(self, body: bytes) -> bool:
        """Whether all is about what is held, at a glance: if so, the application reads it."""
        try:
            named = {report.stream for report in _decode_plain(body).reports}
        except _NOT_PLAIN:
            return False
        return all(self._is_here(one) for one in named)

    def _is_here(self, stream: str | None) -> bool:
        name = _name(stream)
        return name is None or self._forwarding.holds(streams, name)

    async def _answer(self, request: PassedOn, reports: list[_Report], send: Send) -> None:
        named = {report.stream for report in reports}
        if all(self._is_here(one) for one in named):
            await self._app(request.scope, request.replay(), send)
        elif is_passed_on(request.scope):
            await self._answer_all(request, named, send)
        else:
            results = await self._in_parts(request, reports)
            await send_json(send, _write_list(b"results", results))

    async def _answer_all(
        self, request: PassedOn, named: Iterable[str | None], send: Send
    ) -> None:
        """Answer what was passed on, once all of it is here; else nothing of it is done."""
        for place in (await self._places(named, anew=True)).values():
            if isinstance(place, ProblemError):
                raise place
            if place is not None:
                raise UnavailableError(NOBODY)
        await self._app(request.scope, request.replay(), send)

    async def _in_parts(self, request: PassedOn, reports: list[_Report]) -> _Results:
        """Ask the holders for their parts, again where one had moved and nothing was done."""
        results: list[_Raw] = [b""] * len(reports)
        pending, anew = list(range(len(reports))), False
        ask = partial(self._ask, request, deadline=self._forwarding.deadline())
        while pending:
            parts = await self._parts(reports, pending, anew=anew)
            asked = [
                ask(place, [reports[at].body for at in numbers])
                for place, numbers in parts.items()
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
        self, reports: list[_Report], pending: list[int], *, anew: bool
    ) -> dict[_Place, list[int]]:
        """Divide what is pending among those who answer for it."""
        places = await self._places({reports[at].stream for at in pending}, anew=anew)
        parts: dict[_Place, list[int]] = {}
        for at in pending:
            parts.setdefault(places[reports[at].stream], []).append(at)
        return parts

    async def _places(
        self, named: Iterable[str | None], *, anew: bool
    ) -> dict[str | None, _Place]:
        distinct = list(named)
        found = await asyncio.gather(*(self._find(one, anew=anew) for one in distinct))
        return dict(zip(distinct, found, strict=True))

    async def _find(self, stream: str | None, *, anew: bool) -> _Place:
        name = _name(stream)
        try:
            if name is not None:
                return await self._forwarding.find(streams, name, anew=anew)
        except ProblemError as error:
            return error
        return None

    async def _ask(
        self, whole: PassedOn, place: _Place, reports: list[bytes], *, deadline: float
    ) -> _Results | None:
        """Ask for some of the results; a refusal of all of them is one for each.

        Returns None, after a moment, if nothing was done: somebody else is to be asked.
        """
        part = replace(whole, body=_write_list(b"reports", reports))
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
            return [dump_problem(error)] * len(reports)
        if answer.status == _OK:
            return _decode_results(answer.body).results
        return [_decode_raw(answer.body)] * len(reports)


class _Answer:
    """Gathers what would be sent."""

    def __init__(self) -> None:
        self.status = 0
        self.body = b""

    async def send(self, message: Message) -> None:
        self.status = message.get("status", self.status)
        self.body += message.get("body", b"")


def _receive_nothing(error: Exception) -> Receive:
    """Fail in place of a body."""

    async def receive() -> Message:
        raise error

    return receive


def _split(body: bytes) -> list[_Report]:
    return [_Report(_stream(one), one) for one in split_note_times(body)]


def _stream(report: bytes) -> str | None:
    try:
        stream = _decode_named(report).stream
    except _NOT_PLAIN:
        return None
    return stream if isinstance(stream, str) else None


def _write_list(field: bytes, parts: _Results) -> bytes:
    """Write a list as it came: numbers beyond 64 bits, say, are not for us to change."""
    return b'{"%s":[%s]}' % (field, b",".join(parts))


def _name(stream: str | None) -> StreamName | None:
    try:
        return None if stream is None else StreamName.parse(stream)
    except ValueError:
        return None
