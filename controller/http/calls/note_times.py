"""The other hot path: many reports a request, answered without a framework in between."""

from collections.abc import Iterator, Sequence
from operator import attrgetter

from fastapi import APIRouter
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from controller.access import Caller, Role
from controller.clocks import Clocks, StillClock
from controller.commit.batch import Batch
from controller.http.calls.note_time import write_noted
from controller.http.messages.decoding import AnyReport, read_note_times
from controller.http.messages.plain import check_post, read_body, read_query, send_json
from controller.http.messages.problems import dump_problem, send_problem
from controller.metrics.counters import ACCEPTED
from controller.service import Service
from controller.streams import reports
from controller.streams.stream import Registry, StreamState
from tidegauge.aggregation.writers import WriterState
from tidegauge.errors import (
    InternalError,
    InvalidRequestError,
    MethodNotAllowedError,
    ProblemError,
)
from tidegauge.event_time import BEYOND_SECONDS
from tidegauge.names import StreamName
from tidegauge.wire.writers import NoteTimes, TimesNoted

documentation = APIRouter(tags=["writers"])
PATH = "/v1/note-times"
_time, _writer = attrgetter("time"), attrgetter("writer")


@documentation.post(PATH)
async def note_times(many: NoteTimes) -> TimesNoted:  # type: ignore[empty-body]
    """Note many times in one request, each on its own, in order; what is no JSON is refused whole."""


def check_call(scope: Scope) -> None:
    """Refuse what cannot be this call, whatever its body."""
    check_post(scope)
    if scope["query_string"]:
        read_query(scope["query_string"], set())


class _OfOneStream:
    """What a request says about one stream.

    Parameters
    ----------
    state
        The stream.
    """

    def __init__(self, state: StreamState) -> None:
        self.state = state
        self.places: list[int] = []
        self.reports: list[AnyReport] = []

    def take_in(self, batch: Batch, clock: StillClock) -> Iterator[tuple[int, ProblemError]]:
        """Take in the reports; tell which are refused, and why."""
        refused = reports.note_times(batch, clock, self.state, self.reports)
        return ((self.places[at], error) for at, error in refused.items())

    def answer(self, results: list[bytes]) -> None:
        """Say what is durable now, as if none were refused."""
        states = self.state.aggregator.states(map(_writer, self.reports))
        noted = {state: self._noted(state, None) for state in set(states)}
        for place, state in zip(self.places, states, strict=True):
            results[place] = noted[state]
        if min(map(_time, self.reports), default=BEYOND_SECONDS) < BEYOND_SECONDS:
            self._add_hints(results, states)

    def _add_hints(self, results: list[bytes], states: list[WriterState]) -> None:
        for place, report, state in zip(self.places, self.reports, states, strict=True):
            hint = reports.seconds_hint(self.state, report.time)
            if hint is not None:
                results[place] = self._noted(state, hint)

    def _noted(self, state: WriterState, hint: str | None) -> bytes:
        return b'{"status":200,' + write_noted(self.state, state, hint)[1:]


class _Call:
    """Many reports on their way through a batch."""

    def __init__(
        self,
        registry: Registry,
        clocks: Clocks,
        caller: Caller,
        many: Sequence[AnyReport | InvalidRequestError],
    ) -> None:
        self._registry = registry
        self._caller = caller
        self._clocks = clocks
        self._reports = many
        self.problems: dict[int, ProblemError] = {}
        """By place in the request."""
        self._streams: dict[str, _OfOneStream] = {}

    def __len__(self) -> int:
        return len(self._reports)

    def decide(self, batch: Batch) -> None:
        """Take in the reports, those about one stream after another."""
        for place, report in enumerate(self._reports):
            if isinstance(report, InvalidRequestError):
                self.problems[place] = report
                continue
            try:
                stream = self._streams.get(report.stream) or self._find(report.stream)
                if report.stream_id is not None:
                    stream.state.check_id(report.stream_id)
                stream.places.append(place)
                stream.reports.append(report)
            except ProblemError as error:
                self.problems[place] = error
        clock = StillClock(self._clocks.now())
        for stream in self._streams.values():
            self.problems.update(stream.take_in(batch, clock))

    def answer(self) -> bytes:
        """Say what is durable now."""
        results = [b""] * len(self)
        for stream in self._streams.values():
            stream.answer(results)
        for place, problem in self.problems.items():
            results[place] = dump_problem(problem)
        return b'{"results":[%s]}' % b",".join(results)

    def _find(self, text: str) -> _OfOneStream:
        try:
            name = StreamName.parse(text)
        except ValueError as error:
            raise InvalidRequestError.of("stream", str(error)) from error
        self._caller.check(Role.WRITE, name.scope)
        stream = self._streams[text] = _OfOneStream(self._registry.get(name))
        return stream


class NoteTimesApp:
    """Answers ``POST /v1/note-times``.

    Parameters
    ----------
    service
        What takes the reports.
    """

    route = PATH

    def __init__(self, service: Service) -> None:
        self._service = service
        self._limit = service.settings.max_body_bytes

    def serves(self, path: str) -> bool:
        """Whether a path is this call's."""
        return path == PATH

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take in many reports."""
        tally = self._service.metrics.report_tally
        count = 1  # if it cannot be read, nobody knows how many there are
        try:
            call = await self._read(scope, receive)
            count = len(call)
            answer = await self._service.sequencer.submit(call.decide, call.answer)
        except ClientDisconnect:
            raise  # nobody is there to be answered
        except MethodNotAllowedError as error:  # no reports
            await send_problem(send, error)
            return
        except ProblemError as error:
            tally[error.code] += count
            await send_problem(send, error)
            return
        except Exception:
            defect = InternalError(f"POST {PATH}")
            tally[defect.code] += count
            await send_problem(send, defect)
            raise
        tally.update(error.code for error in call.problems.values())
        tally[ACCEPTED] += len(call) - len(call.problems)
        await send_json(send, answer)

    async def _read(self, scope: Scope, receive: Receive) -> _Call:
        check_call(scope)
        many = await read_note_times(await read_body(receive, self._limit))
        service = self._service
        return _Call(service.registry, service.clocks, scope["user"], many)
