"""What the dashboard asks: the same for one page and for many; and what it remembers."""

import json
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from math import inf
from typing import Any

import httpx
import pytest

from tests.listed_streams import NOW, brief_of, writer_of
from tests.patience import until
from tidegauge.client.outage import ServiceUnreachableError
from tidegauge.errors import InvalidRequestError
from tidegauge.wire.streams import MarkInfo
from tidegauge_dashboard.asking import Asking, Outage, Question
from tidegauge_dashboard.connection import Pages
from tidegauge_dashboard.feed import Feed, Seen
from tidegauge_dashboard.history import History, Holders
from tidegauge_dashboard.page.pace import pace_of
from tidegauge_dashboard.server import DashboardSettings, ExposedDashboardError, create_app
from tidegauge_dashboard.views import parse_view
from tidegauge_dashboard.watches import StreamWatch, WritersWatch

pytestmark = pytest.mark.anyio


class Answers(Asking):
    """A service that answers from memory."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:1", None)
        self.away: set[str] = set()
        self.stream_id = "1"

    async def get(self, kind: str, path: str, answer: Any, **_params: object) -> Any:
        """Answer, or do not."""
        assert path.startswith("/v1/")
        self.asked[kind] += 1
        if kind in self.away:
            raise ServiceUnreachableError(self.url, "gone")
        brief = brief_of(stream_id=self.stream_id, explanation=None)
        body = {"groups": [], "streams": [brief.model_dump()], "cursor": None, "now_ms": NOW}
        return answer.model_validate(body)


def test_history_keeps_changes_and_what_held_before_them() -> None:
    history = History()
    for at, value in ((10, 1), (20, 1), (30, 2), (25, 9)):
        history.add(at, value)
    assert history.since(0) == [(10, 1), (30, 2)]
    assert history.since(15) == [(10, 1), (30, 2)]
    assert list(history.at([5, 10, 29, 30])) == [None, 1, 1, 2]


def test_history_forgets_what_is_too_old() -> None:
    history = History(keep_ms=100)
    for at in range(1_000):
        history.add(at, at)
    assert len(history) < 200
    assert list(history.at([899])) == [899]


def test_holders_are_forgotten_with_the_time_in_which_they_held() -> None:
    holders = Holders()
    for at in range(3_000):
        holders.add(10_000 * at, f"w{at}")
    assert len(holders.names) < 1_000
    at, place = holders.samples.values.since(29_000_000)[0]
    assert (at, holders.names[place]) == (29_000_000, "w2900")


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
async def feed(answers: Answers) -> AsyncIterator[Feed]:
    """A feed that knows the stream."""
    feed = Feed(answers)
    feed.start()
    await until(lambda: feed.listed)
    yield feed
    await feed.stop()


def _shown(feed: Feed, **view: str) -> Any:
    """Open a page, and read what it shows."""
    page = Pages(feed).open()
    page.show(parse_view(json.dumps(view or {"kind": "overview"})))
    return json.loads(page.message() or "")


async def test_twenty_pages_cost_the_service_what_one_does(
    feed: Feed, answers: Answers
) -> None:
    pages = Pages(feed)
    shown = []
    for _ in range(20):
        page = pages.open()
        page.show(parse_view('{"kind": "overview"}'))
        shown.append(page.message())
    assert len(set(shown)) == 1
    assert json.loads(shown[0] or "")["list"]["rows"][0]["stream"] == "a/b"
    await until(lambda: answers.asked["streams"] >= 2)
    assert answers.asked["streams"] <= 3


async def test_a_page_gets_only_what_changed(feed: Feed) -> None:
    page = Pages(feed).open()
    page.show(parse_view('{"kind": "overview"}'))
    first, second = (json.loads(page.message() or "") for _ in range(2))
    assert first.keys() - second.keys() == {
        *("list", "outage", "missing", "service", "stopped", "held", "version")
    }


@pytest.mark.parametrize(
    ("url", "shown_url", "end"),
    [
        ("http://127.0.0.1:8470/", None, "demo/first"),
        ("http://127.0.0.1:9", None, " --url http://127.0.0.1:9"),
        ("http://proxy:8470", "http://127.0.0.1:8470", "demo/first"),
        ("http://127.0.0.1:8470", "http://gauge.test/", " --url http://gauge.test"),
    ],
)
async def test_a_command_goes_to_the_service_that_is_shown(
    url: str, shown_url: str | None, end: str
) -> None:
    feed = Feed(Asking(url, None))
    feed.listed = True
    page = Pages(feed, shown_url=shown_url).open()
    page.show(parse_view('{"kind": "overview"}'))
    shown = json.loads(page.message() or "")
    assert shown["service"] == (shown_url or url).rstrip("/")
    assert shown["list"]["empty"]["commands"][0].endswith(end)


@pytest.mark.parametrize(
    ("view", "part"),
    [({"kind": "groups", "sort": "-behind"}, "list"), ({"kind": "help"}, "help")],
)
async def test_pages_without_a_stream_are_drawn_with_how_many_streams_are_held(
    feed: Feed, view: dict[str, str], part: str
) -> None:
    await until(lambda: feed.listed_groups)
    shown = _shown(feed, **view)
    assert shown[part]
    assert shown["held"] == 0


async def test_a_page_that_cannot_be_drawn_does_not_stop_others(answers: Answers) -> None:
    broken = Pages(Feed(answers)).open()
    broken.show(parse_view('{"kind": "stream", "stream": "a/b"}'))
    broken._watches = []
    broken.turn.clear()
    broken.check()
    assert broken.turn.is_set()
    with pytest.raises(ValueError, match="unpack"):
        broken.message()


async def test_an_outage_is_shown_with_what_was_seen_last(feed: Feed, answers: Answers) -> None:
    answers.away = {"streams", "groups"}
    await _fail_for_long(feed.asks_streams)
    shown = _shown(feed)
    assert shown["outage"]["reason"] == "gone"
    assert shown["list"]["total"] == "1"
    assert shown["stopped"] == NOW


async def _fail_for_long(question: Question) -> None:
    await until(lambda: question.failure is not None)
    question.failed_s -= 60


async def test_a_service_that_hangs_is_reported_before_the_client_gives_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        feed = Feed(Asking(f"http://127.0.0.1:{mute.getsockname()[1]}", None))
        feed.start()
        question = feed.asks_streams
        await until(lambda: question.due_s < inf)
        assert feed.outage() is None
        question.due_s -= 60
        assert feed.outage() == Outage(feed.asking.url, None, "it says nothing")
        await feed.stop()


async def test_what_fails_of_one_stream_is_reported_though_all_else_is_answered(
    feed: Feed, answers: Answers
) -> None:
    answers.away = {"writers"}
    watch = feed.watch_writers("a/b", "")
    await _fail_for_long(watch.questions[0])
    outage = feed.outage([watch])
    assert outage is not None
    assert outage.reason == "gone"
    assert feed.outage() is None


async def test_a_stream_made_again_has_no_former_history(feed: Feed, answers: Answers) -> None:
    former = feed.streams["a/b"]
    answers.stream_id = "2"
    feed.open(overview=True)
    await until(lambda: feed.streams["a/b"] is not former)


def test_the_line_of_a_writer_goes_on_while_it_is_listed() -> None:
    watch = WritersWatch(Answers(), "a/b", "")
    for at in range(3):
        stands = {"slow": 100, **{f"w{n}": 100 + at + n for n in range(20)}}
        if at == 1:
            del stands["w3"]
        listed = [writer_of(name, stand=stand) for name, stand in stands.items()]
        watch.follow(listed, NOW + at)
    moments = [NOW, NOW + 1, NOW + 2]
    assert list(watch.stands["slow"].at(moments, now_ms=NOW)) == [100, 100, 100]
    assert list(watch.stands["w19"].at(moments, now_ms=NOW)) == [119, 120, 121]
    assert list(watch.stands["w3"].at(moments, now_ms=NOW)) == [None, None, 105]


def test_it_is_shown_to_this_machine_alone_unless_somebody_insists() -> None:
    beyond = {"url": "http://127.0.0.1:1", "host": "0.0.0.0"}
    with pytest.raises(ExposedDashboardError, match="--insecure"):
        DashboardSettings(**beyond).check()  # type: ignore[arg-type]
    DashboardSettings(**beyond, insecure=True).check()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("names", "host", "status"),
    [
        ((), "localhost:8787", 200),
        ((), "10.0.0.7:8787", 200),
        ((), "[fe80::1]", 200),
        ((), "evil.test", 421),
        ((), "[", 421),
        ((), "", 421),
        (("Gauge.example",), "gauge.EXAMPLE", 200),
        (("gauge.example",), "evil.test", 421),
        (("*",), "evil.test", 200),
    ],
)
async def test_even_who_insists_lets_in_by_known_names_alone(
    names: tuple[str, ...], host: str, status: int
) -> None:
    assert await _status(names, {"host": host}) == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://localhost:8787"}, 200),
        ({"origin": "http://evil.test"}, 403),
        ({"origin": "http://localhost:8788"}, 403),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, 200),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}, 403),
        ({"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"}, 200),
    ],
)
async def test_a_page_of_another_site_may_only_lead_here(
    headers: dict[str, str], status: int
) -> None:
    assert await _status((), {"host": "localhost:8787", **headers}) == status


async def _status(names: tuple[str, ...], headers: dict[str, str]) -> int:
    app = create_app(
        DashboardSettings(url="http://127.0.0.1:1", host="0.0.0.0", names=names, insecure=True)
    )
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        return (await client.get("/", headers=headers)).status_code


def _mark(revision: int, marked_ms: int) -> MarkInfo:
    times = {"lower": NOW + revision, "upper": NOW + revision, "marked_ms": marked_ms}
    return MarkInfo.model_validate(
        times | {"revision": revision, "cut": {0: revision}, "final": False}
    )


class Marks(Answers):
    """A service whose stream has marks of some moments."""

    def __init__(self, moments: Iterable[int]) -> None:
        super().__init__()
        self.marks = [_mark(number, at) for number, at in enumerate(moments, 1)]
        self.waits: list[object] = []

    async def get(self, kind: str, path: str, answer: Any, **params: object) -> Any:
        """Answer the marks; describe the stream just enough."""
        if kind in self.away:
            raise ServiceUnreachableError(self.url, path)
        if kind == "stream":
            return answer.model_construct(stream_id=self.stream_id, revision=0)
        self.waits.append(params["wait_ms"])
        return answer.model_construct(stream_id=self.stream_id, marks=self.marks, now_ms=NOW)


YESTERDAY = (NOW - 86_400_000, NOW - 86_300_000)


async def _watched(moments: Iterable[int]) -> StreamWatch:
    watch = StreamWatch(Marks(moments), "a/b", None)
    await watch._read_marks("/v1/streams/a/b")
    return watch


async def test_news_are_waited_for_only_while_the_service_answers() -> None:
    answers = Marks([])
    watch = StreamWatch(answers, "a/b", None)
    for away in (set(), set(), {"marks"}, set(), set()):
        answers.away = away
        with suppress(ServiceUnreachableError):
            await watch._read_marks("/v1/streams/a/b")
    assert answers.waits == [0, 5_000, 0, 5_000]


async def test_the_page_of_a_stream_made_again_begins_anew() -> None:
    answers, path = Marks(YESTERDAY), "/v1/streams/a/b"
    watch = StreamWatch(answers, "a/b", None)
    await watch._read_marks(path)
    former = watch.holders
    answers.stream_id, answers.marks = "2", [_mark(1, NOW)]
    await watch._describe(path)
    await watch._read_marks(path)
    assert answers.waits == [0, 0]
    assert (list(watch.marks), watch.watermarks.since(0)) == (answers.marks, [(NOW, NOW + 1)])
    assert watch.holders is not former


async def test_a_watermark_that_has_stood_for_a_day_is_drawn() -> None:
    watch = await _watched(YESTERDAY)
    assert list(watch.watermarks.at([NOW])) == [NOW + 2]
    assert watch.fronts.newest is None  # a mark tells only of those behind its cut


async def test_the_pace_of_a_stream_is_that_of_the_last_minutes_on_both_pages() -> None:
    moments = [*YESTERDAY, *range(NOW - 290_000, NOW, 10_000)]
    brief = brief_of()
    seen = Seen(brief)
    for revision, at in enumerate(moments, 1):
        seen.update(brief.model_copy(update={"revision": revision, "marked_ms": at}), at)
    watch = await _watched(moments)
    listed, shown = (pace_of(one.revisions, one.watermarks, NOW) for one in (seen, watch))
    assert (listed.distance_ms, shown.distance_ms) == (10_000, 10_000)
    assert (listed.marks_per_s, shown.marks_per_s) == (5 / 60, 5 / 60)
    yesterday = await _watched(YESTERDAY)
    assert pace_of(yesterday.revisions, yesterday.watermarks, NOW).distance_ms is None


def test_the_rate_of_marks_counts_from_the_first_that_was_seen() -> None:
    revisions = History()
    for revision in range(1, 6):
        revisions.add(NOW - 10_000 + 2_000 * revision, 100 + revision)
    assert pace_of(revisions, History(), NOW).marks_per_s == 0.5
    assert pace_of(History(), History(), NOW).marks_per_s == 0


class Older(Answers):
    """A service of an earlier version, which lists no windows with its groups."""

    async def get(self, kind: str, path: str, answer: Any, **params: object) -> Any:
        """Refuse what it does not know."""
        if kind == "groups":
            raise InvalidRequestError.of(
                "windows", "this call has no such parameter; it has ['limit']"
            )
        return await super().get(kind, path, answer, **params)


async def test_an_older_service_is_called_so_and_its_streams_are_shown() -> None:
    feed = Feed(Older())
    feed.start()
    await until(lambda: feed.listed and feed.asks_groups.refusal is not None)
    shown = _shown(feed)
    assert (shown["missing"], shown["list"]["total"]) == (None, "1")
    assert "is older than this dashboard: update it" in shown["list"]["groups_refusal"]
    await feed.stop()
