"""The other hot path: many reports a request, answered without a framework in between."""

from collections.abc import Sequence
from operator import attrgetter

from fastapi.routing import APIRoute
from starlette.types import Receive, Scope

from controller.access.callers import Caller, Role
from controller.commit.batch import Batch
from controller.http.calls.note_time import write_noted
from controller.http.calls.reporting import Reports, ReportsApp
from controller.http.messages.decoding import AnyReport, read_note_times
from controller.http.messages.plain import check_post, read_body, read_query
from controller.http.messages.problems import dump_problem
from controller.http.routing import router_of
from controller.streams import reports
from controller.streams.registry import Registry
from controller.streams.stream import StreamState
from tidegauge.errors import InvalidRequestError, ProblemError
from tidegauge.event_time import BEYOND_SECONDS
from tidegauge.names import StreamName
from tidegauge.states import WriterState
from tidegauge.wire.writers import NoteTimes, TimesNoted

documentation = router_of("writers", APIRoute)
PATH = "/v1/note-times"
_time, _writer = attrgetter("time"), attrgetter("writer")


@documentation.post(PATH)
async def note_times(many: NoteTimes) -> TimesNoted:  # type: ignore[empty-body]
    """Note many times in one request, each on its own, in order; a body that is not JSON is refused as a whole."""


def check_call(scope: Scope) -> None:
    """Refuse what cannot be this call, whatever its body."""
    check_post(scope)
    if scope["query_string"]:
        read_query(scope["query_string"], set())


class _OfOneStream:
    """What a request says about one stream."""

    def __init__(self, state: StreamState) -> None:
        self.state = state
        self.places: list[int] = []
        self.reports: list[AnyReport] = []

    def answer(self, results: list[bytes]) -> None:
        """Return what is durable now, as if none were refused."""
        states = self.state.aggregator.states(map(_writer, self.reports))
        # Written once for each state that a writer can be in, not for each report.
        noted = {state: self._noted(state, None) for state in set(states)}
        for place, state in zip(self.places, states, strict=True):
            results[place] = noted[state]
        if min(map(_time, self.reports), default=BEYOND_SECONDS) < BEYOND_SECONDS:
            for place, report, state in zip(self.places, self.reports, states, strict=True):
                hint = reports.seconds_hint(self.state, report.time)
                if hint is not None:
                    results[place] = self._noted(state, hint)

    def _noted(self, state: WriterState, hint: str | None) -> bytes:
        return b'{"status":200,' + write_noted(self.state, state, hint)[1:]


class _Reports(Reports):
    """Many reports on their way through a batch."""

    def __init__(
        self,
        registry: Registry,
        caller: Caller,
        many: Sequence[AnyReport | InvalidRequestError],
    ) -> None:
        self._registry = registry
        self._caller = caller
        self._reports = many
        self._problems: dict[int, ProblemError] = {}
        """By place in the request."""
        self.refused = self._problems.values()
        self._streams: dict[str, _OfOneStream] = {}

    def __len__(self) -> int:
        return len(self._reports)

    def decide(self, batch: Batch) -> None:
        """Apply the reports, stream by stream."""
        for place, report in enumerate(self._reports):
            if isinstance(report, InvalidRequestError):
                self._problems[place] = report
                continue
            try:
                stream = self._streams.get(report.stream) or self._find(report.stream)
                if report.stream_id is not None:
                    stream.state.check_id(report.stream_id)
                stream.places.append(place)
                stream.reports.append(report)
            except ProblemError as error:
                self._problems[place] = error
        for stream in self._streams.values():
            refused = reports.note_times(batch, stream.state, stream.reports)
            self._problems.update((stream.places[at], error) for at, error in refused.items())

    def answer(self) -> bytes:
        """Return what is durable now."""
        results = [b""] * len(self)
        for stream in self._streams.values():
            stream.answer(results)
        for place, problem in self._problems.items():
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


class NoteTimesApp(ReportsApp):
    """Answers ``POST /v1/note-times``."""

    route = PATH

    def serves(self, path: str) -> bool:
        """Return whether a path is this call's."""
        return path == PATH

    async def _read(self, scope: Scope, receive: Receive) -> _Reports:
        check_call(scope)
        body = await read_body(receive, self._max_body_bytes)
        many = await read_note_times(body, self._max_report_bytes)
        return _Reports(self._registry, scope["user"], many)
