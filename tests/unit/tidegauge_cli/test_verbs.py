"""The verbs as typed, against a service in this process: what each prints, and its status."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controller.configuration import ServeSettings
from tests.service.api import Api
from tests.service.in_process import served_in_process
from tests.service.operator import check_session

NOON = 1_704_110_400_000


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    """A service of a test's own, which verbs reach, with the stream shop/orders."""
    settings = ServeSettings(database_url=f"sqlite:///{tmp_path / 'tidegauge.db'}")
    with (
        served_in_process(settings) as service,
        service.reached_by_clients(),
        Api(service.url, "shop/orders", transport=service) as calls,
    ):
        calls.create(log="embedded", mark_resolution_ms=0)
        yield calls


SESSIONS = {
    "a script notes time and sees the watermark": """
        $ note-time shop/orders cron 2024-01-01T12:00:00Z
        cron is active; watermark 2024-01-01T12:00:00.000Z
        $ note-time shop/orders cron 1704110400001 --json
        {…"watermark": 1704110400001,…}
        $ note-time shop/orders cron 1704110400000
        tidegauge: …a noted time is a promise and cannot go back… [1]
        """,
    "a time before 1970 is no option": """
        $ note-time shop/orders cron -9223372036854775808
        cron is active; watermark -9223372036854775808
        $ note-time shop/orders -- cron -5
        cron is active; watermark -5
        """,
    "seconds are taken only by force or in logical time": """
        $ note-time shop/orders cron 1704110400
        tidegauge: 1704110400 lies in early 1970: are these seconds? Times are milliseconds, such as
        1704110400000; --force accepts it as it is [1]
        $ register shop/orders cron --time 1704110400
        …--force accepts it as it is [1]
        $ note-time shop/orders cron 1704110400 --force
        cron is …
        $ leave shop/orders cron --time 1704110400
        …--force accepts it as it is [1]
        $ leave shop/orders cron --time 1704110400 --force
        cron is …
        $ register shop/orders cron --time 1704110400 --force
        cron is …
        $ create shop/logical --max-future-skew-ms null
        $ note-time shop/logical cron 1704110400
        cron is …
        """,
    "streams, writers and marks are listed": """
        $ note-time shop/orders a 2024-01-01T12:00:00Z
        $ note-time shop/orders a 2024-01-01T12:01:00Z
        $ streams
        stream watermark … shop/orders 2024-01-01T12:01:00.000Z …
        $ writers shop/orders
        writer state … a active 0 2024-01-01T12:01:00.000Z …
        $ marks shop/orders --after 1
        revision made … 2 20… 2024-01-01T12:01:00.000Z 2024-01-01T12:01:00.000Z 0:0
        $ writers shop/orders --state left --json
        []
        """,
    "marks are the newest unless others are asked for, and say which of how many they are": """
        $ note-time shop/orders a 2024-01-01T12:00:00Z
        $ note-time shop/orders a 2024-01-01T12:01:00Z
        $ note-time shop/orders a 2024-01-01T12:02:00Z
        $ marks shop/orders --limit 2
        revision … 2 20… 2024-01-01T12:01:00.000Z … 3 20… 2024-01-01T12:02:00.000Z …
        2> tidegauge: the newest 2 of 3 marks; --limit shows more…
        $ marks shop/orders --limit 2 --after 0
        revision … 1 20… 2024-01-01T12:00:00.000Z … 2 20… 2024-01-01T12:01:00.000Z … 0:0
        2> tidegauge: the first 2; --limit shows more, --after 2 those that follow
        $ marks shop/orders --limit 1 --since 1h
        revision … 1 20… 2024-01-01T12:00:00.000Z … 0:0 2> tidegauge: the first 1; …
        $ marks shop/orders --since 1h --after 2 --json
        [ {…"revision": 3…} ]
        $ marks shop/orders --since 9999-01-01T00:00:00Z --json
        []
        $ marks shop/orders
        revision … 1 … 3 … 2024-01-01T12:02:00.000Z 0:0
        """,
    "why names who holds the watermark, and expire drops it": """
        $ register shop/orders slow
        $ why shop/orders
        …writer 'slow' (no time noted yet) holds back the first mark while no writer waits…
        writer state … slow joining …
        $ note-time shop/orders fast 2024-01-01T12:00:00Z
        $ why shop/orders
        There is no mark yet: writer 'slow' (…holds back the first mark while 'fast' waits; it is
        dropped in …(its events below the watermark are then late):
        tidegauge expire shop/orders slow --url http://localhost
        writer state … slow joining …
        $ expire shop/orders slow
        slow is expired; watermark …
        $ why shop/orders --json
        {…"watermark": 1704110400000,…}
        """,
    "why shows no empty table": """
        $ configure shop/orders --min-writers 2
        shop/orders: min_writers is 2, was 0
        $ note-time shop/orders a 2024-01-01T12:00:00Z
        $ why shop/orders
        There is no mark yet: 1 of min_writers=2 writers have reported; start the other writers, or
        require fewer: tidegauge configure shop/orders --min-writers 1 --url http://localhost
        """,
    "of several streams, wait names those that are not complete, and why begins with the last": """
        $ create shop/b --mark-resolution-ms 0
        $ create shop/c
        $ note-time shop/orders a 1704110400000
        $ note-time shop/b a 1704110399999
        $ wait shop/orders shop/b shop/c 2024-01-01T12:00:00Z --timeout 1ms
        2> tidegauge: shop/b is not complete … tidegauge: shop/c is not complete … [1]
        $ wait shop/orders shop/b 1704110399999 --timeout 0
        shop/orders is complete below 2024-01-01T11:59:59.999Z; watermark 2024-01-01T12:00:00.000Z
        shop/b is complete below 2024-01-01T11:59:59.999Z; watermark 2024-01-01T11:59:59.999Z
        $ wait shop/orders shop/b 2024-01-01T11:59:59.999999Z --timeout 0
        2> tidegauge: shop/b is not complete … [1]
        $ why shop/c shop/orders shop/b
        shop/c: … shop/b: … shop/orders: …
        $ why shop/c shop/orders shop/b --json
        […"stream": "shop/c"…"stream": "shop/b"…"stream": "shop/orders"…]
        """,
    "a table is listed with its version, and why names the job that holds it": """
        $ create lake/hourly --table s3://lake/hourly
        …create it with log external, segments 1 [1]
        $ create lake/hourly --log external --segments 1 --table s3://lake/hourly --min-writers 2
        lake/hourly is created: external, 1 segment
        $ note-time lake/hourly nightly 1700000000000 --position 0:33
        $ note-time lake/hourly hourly 1700000060000 --position 0:33
        $ streams
        …lake/hourly…version 32…s3://lake/hourly…
        $ why lake/hourly
        …'nightly'…
        $ streams --json
        […"version": 32…]
        """,
    "a stream is sealed only after a yes": """
        $ seal shop/orders --json
        2> tidegauge: Nothing can be written to shop/orders afterwards. Seal it? No terminal can
        answer, so nothing was done; pass --yes [1]
        $ streams
        … shop/orders none yet …
        $ seal shop/orders --yes
        shop/orders is sealed at 0:0
        $ streams
        … shop/orders the end of time …
        $ wait shop/orders 9223372036854775807 --timeout 0 --json
        {…"watermark": 9223372036854775807…}
        """,
    "a stream is deleted only after a yes": """
        $ delete shop/orders
        2> tidegauge: This permanently deletes the events, marks and writers of shop/orders. Delete
        it? No terminal can answer, so nothing was done; pass --yes [1]
        $ delete shop/orders --yes
        shop/orders is deleted
        $ delete shop/orders --yes
        … [1]
        $ why shop/orders
        …to create it: tidegauge create shop/orders (in Python Stre… [1]
        $ create shop/orders
        $ delete shop/orders --yes --json
        { "stream": "shop/orders", "deleted": true }
        """,
    "a stream is created once, and the same again changes nothing": """
        $ create shop/new --segments 2 --min-writers 2 --log external
        shop/new is created: external, 2 segments
        $ create shop/new --segments 2 --min-writers 2 --log external
        shop/new is unchanged: external, 2 segments
        $ create shop/new --mark-retention-ms 5 --min-writers 1
        …min_writers is 2, not 1, mark_retention_ms is null, not 5; to change it: tidegauge
        configure shop/new --min-writers 1 --mark-retention-ms 5 (in Python… [1]
        $ create shop/new --segments 3
        …segments is 2, not 3; this cannot change: leave it out, or create… [1]
        """,
    "settings are changed, and null is a value": """
        $ configure shop/orders --aggregation-timeout-ms null --min-writers 0
        shop/orders: aggregation_timeout_ms is null, was 60000
        $ configure shop/orders --aggregation-timeout-ms null
        shop/orders: unchanged
        $ configure shop/orders --scaling events_per_s=100,min_segments=2
        shop/orders: scaling is {"events_per_s": 100, "bytes_per_s": null, "window_ms": 120000,
        "cooldown_ms": 600000, "min_segments": 2}, was 'fixed'
        $ configure shop/orders --scaling null
        shop/orders: scaling is 'fixed', was {…}
        """,
    "lengths of time and sizes are written with their unit": """
        $ configure shop/orders --aggregation-timeout-ms 90s --hold-limit-ms 11m
        shop/orders: aggregation_timeout_ms is 90000, was 60000
        shop/orders: hold_limit_ms is 660000, was 600000
        $ configure shop/orders --mark-interval-ms 250 --retention 7d,10GB
        shop/orders: mark_interval_ms is 250, was 0
        shop/orders: retention is {"age_ms": 604800000, "bytes": 10000000000}, was null
        $ configure shop/orders --retention age_ms=1h,bytes=2MiB
        shop/orders: retention is {"age_ms": 3600000, "bytes": 2097152}, was {…}
        $ configure shop/orders --scaling bytes_per_s=5MB,window_ms=1m
        shop/orders: scaling is {…"bytes_per_s": 5000000, "window_ms": 60000,…}, was 'fixed'
        """,
    "segments are split, merged and scaled in any way": """
        $ create shop/two --segments 2
        $ scale shop/two --split 0
        segment 0 is sealed at 0
        segment 2 owns keys from 0 to 0.25, after 0
        segment 3 owns keys from 0.25 to 0.5, after 0
        $ scale shop/two --merge 1,3
        segment 1 is sealed at 0
        segment 3 is sealed at 0
        segment 4 owns keys from 0.25 to 1, after 1, 3
        $ scale shop/two --seal 4,2 --into 0-0.1,0.1-1 --json
        {…"predecessors": [ 2 ]…"predecessors": [ 2, 4 ]…}
        $ scale shop/two --merge 5,9
        …there is no segment 9… [1]
        """,
    "a script registers a writer and lets it leave": """
        $ register shop/orders cron --time 2024-01-01T12:00:00Z
        cron is active, incarnation 1; watermark 2024-01-01T12:00:00.000Z
        it continues at 2024-01-01T12:00:00.000Z: events that it writes from there on are not late
        repeat the last time every 20s to avoid being dropped for silence
        $ leave shop/orders cron
        …from a shell --incarnation 1… [1]
        $ leave shop/orders cron --incarnation 1 --time 2024-01-01T12:00:00Z
        cron is left; watermark 2024-01-01T12:00:00.000Z
        $ note-time shop/orders other 2024-01-01T12:00:00Z
        other is active; watermark 2024-01-01T12:00:00.000Z
        $ leave shop/orders other --ended
        other is left; watermark 2024-01-01T12:00:00.000Z
        the stream is sealed once these have ended: cron
        $ writers shop/orders
        writer … cron left … other ended …
        $ leave shop/orders cron --ended
        cron is left; watermark the end of time
        """,
}


@pytest.mark.usefixtures("api")
@pytest.mark.parametrize("session", SESSIONS.values(), ids=SESSIONS)
def test_what_verbs_print(session: str) -> None:
    check_session(session)


GROUP = "/v1/reader-groups/shop/billing"


def _read_by_billing(api: Api) -> None:
    api.note("a", NOON)
    api.client.put(GROUP, json={"streams": [api.name]}).raise_for_status()
    api.client.post(f"{GROUP}/readers/r1").raise_for_status()


def _reported_by_a_query(api: Api) -> None:
    _read_by_billing(api)
    reported: dict[str, object]
    reported = {"bound": NOON, "lag_ms": 61_000, "backlog": 40, "late": 7, "late_by_ms": 90_000}
    reported |= {"late_writers": {"b": 2, "a": 5}, "state_bytes": 4_096, "late_output": 3}
    api.client.post(f"{GROUP}/progress", json=reported).raise_for_status()


def _ten_events(api: Api) -> None:
    lines = "".join(f'{{"key": "k", "event_time": {n}, "value": ""}}\n' for n in range(10))
    ndjson = {"content-type": "application/x-ndjson"}
    api.client.post(f"{api.path}/events", content=lines, headers=ndjson).raise_for_status()


def _many_hold(api: Api) -> None:
    api.change(aggregation_timeout_ms=None, hold_limit_ms=None)
    api.many({"writer": f"w{n:02}", "time": NOON} for n in range(31))
    api.note("fast", NOON + 60_000)
    api.post("writers/new/register")


PREPARED: dict[str, tuple[Callable[[Api], None], str]] = {
    "groups and their windows are shown": (
        _read_by_billing,
        """
        $ groups
        group … shop/billing shop/orders r1 0 1 caught up
        $ window shop/billing shop/orders
        lower 2024-01-01T12:00:00.000Z
        upper at the tail
        watermark 2024-01-01T12:00:00.000Z
        position 0:0
        $ window shop/billing
        stream … shop/orders 2024-01-01T12:00:00.000Z at the tail 2024-01-01T12:00:00.000Z caught up 0:0
        $ window shop/billing shop/other
        …'shop/other' is not read by the group; it reads shop/orders… [1]
        $ lag shop/billing
        no query has reported as shop/billing for 5 minutes;…
        """,
    ),
    "the lag of a query is shown with the writers of late rows": (
        _reported_by_a_query,
        """
        $ lag shop/billing
        bound 2024-01-01T12:00:00.000Z
        lag 1m 1s
        backlog 40 rows
        state 4096 bytes
        late 7 rows, by up to 1m 30s: a 5, b 2
        late out 3 rows late for all their windows, 0 for some of them…
        $ lag shop/billing --json
        { "group": "shop/billing", "progress": { "bound": 1704110400000, "lag_ms": 61000, …
        """,
    ),
    "a stream is truncated at a cut or a time": (
        _ten_events,
        """
        $ truncate shop/orders --cut 0:3
        2> tidegauge: This permanently drops the oldest events of shop/orders. Drop them?… [1]
        $ truncate shop/orders --cut 0:3 --yes
        shop/orders begins at 0:3
        $ truncate shop/orders --time 1970-01-01T00:00:00.005Z --yes --json
        {…"first_cut": { "0": 5 }…}
        $ truncate shop/orders --cut 0:11 --yes
        …it goes from 0 to 10… [1]
        """,
    ),
    "why lists who has noted nothing first, and counts the rest": (
        _many_hold,
        """
        $ why shop/orders
        …writers 'new' (no time noted yet, starts at 2024-01-01T12:00:00.000Z), …
        writer state … new joining … and 22 more
        """,
    ),
}


@pytest.mark.parametrize(("prepare", "session"), PREPARED.values(), ids=PREPARED)
def test_what_verbs_print_of_more_than_writers(
    api: Api, prepare: Callable[[Api], None], session: str
) -> None:
    prepare(api)
    check_session(session)
