"""The other hot path: many reports a request, answered without a framework in between."""

from collections.abc import Sequence

from fastapi import APIRouter
from starlette.types import Receive, Scope, Send

from controller import reports
from controller.access import Caller, Role
from controller.clocks import Clocks, StillClock
from controller.http.decoding import AnyReport, read_note_times
from controller.http.plain import check_post, read_body, read_query, send_json
from controller.http.problems import dump_problem, send_problem
from controller.metrics import ACCEPTED
from controller.sequencer import Batch
from controller.service import Service
from controller.streams import Registry, StreamState
from tidegauge.errors import InternalError, InvalidRequestError, ProblemError
from tidegauge.names import StreamName
from tidegauge.wire.writers import NoteTimes, TimeNoted, TimesNoted

documentation = APIRouter(tags=["writers"])
PATH = "/v1/note-times"
_OK = 200


@documentation.post(PATH)
async def note_times(many: NoteTimes) -> TimesNoted:  # type: ignore[empty-body]
    """Note many times in one request, each on its own, in order."""


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
        self._streams: dict[str, StreamState] = {}

    def __len__(self) -> int:
        return len(self._reports)

    def decide(self, batch: Batch) -> None:
        """Take in the reports, one after another."""
        clock = StillClock(self._clocks.now())
        for at, report in enumerate(self._reports):
            if isinstance(report, InvalidRequestError):
                self.problems[at] = report
                continue
            try:
                stream = self._streams.get(report.stream) or self._find(report.stream)
                if report.stream_id is not None:
                    stream.check_id(report.stream_id)
                reports.note_time(batch, clock, stream, report.writer, report)
            except ProblemError as error:
                self.problems[at] = error

    def answer(self) -> bytes:
        """Say what is durable now."""
        told: dict[tuple[str, str, str | None], bytes] = {}
        results = []
        for at, report in enumerate(self._reports):
            if isinstance(report, InvalidRequestError) or at in self.problems:
                results.append(dump_problem(self.problems[at]))
                continue
            stream = self._streams[report.stream]
            state = stream.clock.state(report.writer)
            hint = reports.seconds_hint(stream, report.time)
            key = report.stream, state, hint
            if key not in told:
                told[key] = _noted(stream, state, hint)
            results.append(told[key])
        return b'{"results":[%s]}' % b",".join(results)

    def _find(self, text: str) -> StreamState:
        try:
            name = StreamName.parse(text)
        except ValueError as error:
            raise InvalidRequestError.of("stream", str(error)) from error
        self._caller.check(Role.WRITE, name.scope)
        stream = self._streams[text] = self._registry.get(name)
        return stream


def _noted(stream: StreamState, state: str, hint: str | None) -> bytes:
    noted = TimeNoted.model_validate(
        {
            "stream_id": stream.identity.stream_id,
            "watermark": stream.watermark,
            "state": state,
            "final": stream.final,
            "hint": hint,
        }
    )
    return b'{"status":200,' + noted.model_dump_json().encode()[1:]


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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> int:
        """Take in many reports, and return the status of the answer."""
        try:
            call = await self._read(scope, receive)
            answer = await self._service.sequencer.submit(call.decide, call.answer)
        except ProblemError as error:
            await send_problem(send, error)
            return error.status
        except Exception:
            await send_problem(send, InternalError(f"POST {PATH}"))
            raise
        self._count(call)
        await send_json(send, answer)
        return _OK

    async def _read(self, scope: Scope, receive: Receive) -> _Call:
        check_post(scope)
        read_query(scope["query_string"], set())
        body = await read_body(receive, self._limit)
        service = self._service
        return _Call(service.registry, service.clocks, scope["user"], read_note_times(body))

    def _count(self, call: _Call) -> None:
        tally = self._service.metrics.report_tally
        tally.update(error.code for error in call.problems.values())
        tally[ACCEPTED] += len(call) - len(call.problems)
