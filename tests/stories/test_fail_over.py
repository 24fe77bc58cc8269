"""A standby sends callers to the holder, and takes over from one that was killed."""

import time

import httpx

from tests.patience import wait_until
from tests.service.controllers import (
    BOUND_S,
    BUSY_S,
    NOW,
    STREAM,
    Controllers,
    answers,
    is_ready,
    note,
    watermark,
)


def test_a_standby_answers_probes_and_sends_all_other_callers_to_the_holder(
    two: Controllers,
) -> None:
    holder, (standby,) = two.holder, two.standbys
    assert answers(standby)
    unready = httpx.get(f"{standby.url}/readyz")
    reason = f"this controller stands by; {holder.url} holds the database"
    assert (unready.status_code, unready.json()["reasons"]) == (503, [reason])
    assert "tidegauge_holds_database 0.0" in standby.metrics()
    assert "tidegauge_holds_database 1.0" in holder.metrics()
    # Of a copy beside it the stored id is the same, and the rest another one.
    (database,) = two.query(
        "SELECT id, (SELECT system_identifier FROM pg_control_system())::text, oid::text "
        "FROM identity, pg_database WHERE datname = current_database()"
    )
    for url in (f"{holder.url}/readyz", f"{standby.url}/readyz", f"{standby.url}/v1/streams"):
        assert httpx.get(url).headers["tidegauge-database"] == " ".join(database)
    assert "tidegauge-database" not in httpx.get(f"{holder.url}/v1/streams").headers
    page = httpx.get(f"{standby.url}/").json()
    assert (page["standby"], page["links"]["holder"]) == (reason, holder.url)
    for method, path in (("GET", "/v1/streams?limit=1"), ("DELETE", "/v1/streams/a/b%20c")):
        sent = httpx.request(method, f"{standby.url}{path}")
        assert (sent.status_code, sent.headers["location"]) == (307, f"{holder.url}{path}")
        assert sent.json()["code"] == "stands_by"
    assert note(standby.url, STREAM, 1).status_code == 307
    with httpx.Client(follow_redirects=True) as client:
        report = {"time": NOW + 5, "position": {"0": 5}}
        url = f"{standby.url}/v1/streams/{STREAM}/writers/w/note-time"
        assert client.post(url, json=report).json()["watermark"] == NOW + 5


def test_a_standby_takes_over_from_a_killed_holder_within_its_bound(two: Controllers) -> None:
    holder, (standby,) = two.holder, two.standbys
    assert note(holder.url, STREAM, 7).status_code == 200
    holder.kill()
    killed = time.monotonic()
    wait_until(lambda: is_ready(standby))
    assert time.monotonic() - killed < BOUND_S + BUSY_S
    assert watermark(standby) == NOW + 7
    holder.launch()
    wait_until(lambda: answers(holder))
    assert note(holder.url, STREAM, 8).headers["location"].startswith(standby.url)
