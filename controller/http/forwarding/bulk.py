"""Many reports in one request: each part goes to the holder of its streams, results in order."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from controller.http.calls.note_times import PATH, check_call
from controller.http.forwarding.one import NOBODY, Forwarding, refuse
from controller.http.forwarding.peers import PassedOn, Peer, is_passed_on
from controller.http.messages.decoding import NOT_PLAIN, split_note_times
from controller.http.messages.plain import read_body, send_json
from controller.http.messages.problems import dump_problem, send_problem
from controller.schema import streams
from tidegauge.errors import ProblemError, UnavailableError
from tidegauge.names import StreamName

_Place: TypeAlias = Peer | ProblemError | None
_Raw: TypeAlias = msgspec.Raw | bytes
_Results: TypeAlias = Sequence[_Raw]


class _Report(NamedTuple):
    """One report, as it came; without a stream it is to be refused here."""

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


class BulkForwarding:
    """Splits a request with many reports among the holders of their streams.

    All else is left to what forwards one call, and knows the holders.
    """

    def __init__(self, forwarding: Forwarding) -> None:
        self._forwarding = forwarding
        self._app = forwarding.app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, in parts if need be."""
        if scope["path"] != PATH:
            await self._forwarding(scope, receive, send)
            return
        try:
            check_call(scope)
            request = PassedOn(
                scope, await read_body(receive, self._forwarding.max_body_bytes), receive
            )
            reports = self._split(request.body)
        except (ClientDisconnect, ProblemError) as error:
            await self._app(scope, _failing(error), send)  # it counts what it refuses
            return
        try:
            named = {report.stream for report in reports}
            if all(self._is_here(one) for one in named):
                await self._app(scope, request.replay(), send)
            elif is_passed_on(scope):
                # Answered once all of it is here; else nothing of it is done.
                for place in (await self._places(named, anew=True)).values():
                    if isinstance(place, Peer):
                        place = UnavailableError(NOBODY)  # noqa: PLW2901 (raised)
                    if place is not None:
                        raise place
                await self._app(scope, request.replay(), send)
            else:
                results = await self._in_parts(request, reports)
                await send_json(send, _write_list(b"results", results))
        except UnavailableError as error:
            await refuse(error, send)
        except ProblemError as error:
            await send_problem(send, error)

    def _split(self, body: bytes) -> list[_Report]:
        """Split a body into its reports; none if all of it is held here, at a glance."""
        try:
            named = {report.stream for report in _decode_plain(body).reports}
            if all(self._is_here(one) for one in named):
                return []
        except NOT_PLAIN:
            pass  # it is split whatever is in its reports
        reports = []
        for one in split_note_times(body):
            try:
                stream = _decode_named(one).stream
            except NOT_PLAIN:
                stream = None
            reports.append(_Report(stream if isinstance(stream, str) else None, one))
        return reports

    def _is_here(self, stream: str | None) -> bool:
        name = _name(stream)
        return name is None or self._forwarding.holds(streams, name)

    async def _in_parts(self, request: PassedOn, reports: list[_Report]) -> _Results:
        """Ask the holders for their parts, again where one had moved and nothing was done."""
        results: list[_Raw] = [b""] * len(reports)
        pending, anew = list(range(len(reports))), False
        deadline = self._forwarding.deadline()
        while pending:
            places = await self._places({reports[at].stream for at in pending}, anew=anew)
            parts: dict[_Place, list[int]] = {}
            for at in pending:
                parts.setdefault(places[reports[at].stream], []).append(at)
            asked = [
                self._ask(request, place, [reports[at].body for at in numbers], deadline)
                for place, numbers in parts.items()
            ]
            pending, anew = [], True
            answered = await asyncio.gather(*asked)
            for numbers, answers in zip(parts.values(), answered, strict=True):
                if answers is None:
                    pending += numbers
                    continue
                for at, answer in zip(numbers, answers, strict=True):
                    results[at] = answer
            pending.sort()
        return results

    async def _places(
        self, named: Iterable[str | None], *, anew: bool
    ) -> dict[str | None, _Place]:
        async def find(stream: str | None) -> _Place:
            name = _name(stream)
            try:
                if name is not None:
                    return await self._forwarding.find(streams, name, anew=anew)
            except ProblemError as error:
                return error
            return None

        distinct = list(named)
        found = await asyncio.gather(*map(find, distinct))
        return dict(zip(distinct, found, strict=True))

    async def _ask(
        self, whole: PassedOn, place: _Place, reports: list[bytes], deadline: float
    ) -> _Results | None:
        """Ask for some of the results; a refusal of all of them is one for each.

        Returns None, after a moment, if nothing was done: somebody else is to be asked.
        """
        part = whole._replace(body=_write_list(b"reports", reports))
        status, body = 0, b""

        async def gather(message: Message) -> None:
            nonlocal status, body
            status = message.get("status", status)
            body += message.get("body", b"")

        try:
            if isinstance(place, ProblemError):
                raise place
            if place is None:
                await self._app(part.scope, part.replay(), gather)
            elif not await self._forwarding.peers.ask(place, part, gather):
                await self._forwarding.await_news(place, deadline=deadline)
                return None
        except ProblemError as error:
            return [dump_problem(error)] * len(reports)
        if status == 200:
            return _decode_results(body).results
        return [_decode_raw(body)] * len(reports)


def _failing(error: Exception) -> Receive:
    """Fail in place of a body."""

    async def receive() -> Message:
        raise error

    return receive


def _write_list(field: bytes, parts: _Results) -> bytes:
    """Write a list as it came: numbers beyond 64 bits, say, are not for us to change."""
    return b'{"%s":[%s]}' % (field, b",".join(parts))


def _name(stream: str | None) -> StreamName | None:
    try:
        return None if stream is None else StreamName.parse(stream)
    except ValueError:
        return None
