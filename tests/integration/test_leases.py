"""Several controllers over one database: any takes any call, and the loss of one is bridged."""

import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.integration.controllers import LEASE_MS, NOW, Controllers, controllers, create, note
from tests.patience import wait_until
from tests.postgres import Cluster
from tests.server import Api, ServerProcess
from tests.simulation.quiet import QuietWorld

FOUR = ["tests/a", "tests/b", "tests/c", "tests/d"]
MAX_GROUPS = 2


@contextmanager
def _sharing(cluster: Cluster, directory: Path, **options: object) -> Iterator[Controllers]:
    with controllers(cluster, directory, 2, **options) as running:
        create(running.servers[0].url, *FOUR)
        wait_until(lambda: running.held() == [2, 2, 0])
        yield running


@pytest.fixture(scope="module")
def two(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controllers]:
    directory = tmp_path_factory.mktemp("two")
    with _sharing(cluster, directory, max_groups=MAX_GROUPS) as running:
        yield running


@pytest.fixture(scope="module")
def losing(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controllers]:
    """Two with leases that are soon over."""
    with _sharing(cluster, tmp_path_factory.mktemp("losing"), lease_ms=LEASE_MS) as running:
        yield running


def _other(two: Controllers, server: ServerProcess) -> ServerProcess:
    return next(one for one in two.servers if one is not server)


def _streams_and_leases(server: ServerProcess) -> list[float]:
    """Read how many streams there are, and of how many the server makes the marks."""
    shown = httpx.get(f"{server.url}/metrics").text.splitlines()
    names = ("tidegauge_streams", "tidegauge_leases_held")
    values = {line.partition(" ")[0]: line.partition(" ")[2] for line in shown}
    return [float(values[name]) for name in names]


def test_any_controller_takes_any_report_and_sees_any_mark(two: Controllers) -> None:
    for at, server in enumerate(two.servers, start=1):
        for stream in FOUR:
            answer = note(server.url, stream, at)
            assert (answer.status_code, answer.json()["watermark"]) == (200, NOW + at)
    for server in two.servers:
        listed = httpx.get(f"{server.url}/v1/streams").json()["streams"]
        assert [one["stream"] for one in listed] == FOUR
        assert {one["watermark"] for one in listed} == {NOW + 2}


def test_what_another_controller_answers_is_counted_as_such(two: Controllers) -> None:
    holder = two.holder_of("tests/a")
    other = _other(two, holder)
    before = _counted(other), _counted(holder)
    query = {"after": 1_000_000, "wait_ms": 1}
    for _ in range(3):
        httpx.get(f"{other.url}/v1/streams/tests/a").raise_for_status()
        httpx.get(f"{other.url}/v1/streams/tests/a/marks", params=query).raise_for_status()
    assert _counted(other) - before[0] == {"forwarded": 3, "forwarded, waiting": 3}
    assert _counted(holder) - before[1] == {
        "/v1/streams/{scope}/{stream}": 3,
        "/v1/streams/{scope}/{stream}/marks, waiting": 3,
    }


def _counted(server: ServerProcess) -> Counter[str]:
    """Read how many requests a server answered with success, by route."""
    found = Counter[str]()
    shown = httpx.get(f"{server.url}/metrics").text
    pattern = r'tidegauge_http_(\w+)_duration_seconds_count{route="(.*)",status="2xx"} (\d+)'
    for kind, route, count in re.findall(pattern, shown):
        name = route if kind == "request" else f"{route}, waiting"
        found[name] = int(count) if route not in {"/metrics", "/readyz"} else 0
    return found


def test_refusals_come_back_as_they_are(two: Controllers) -> None:
    for stream in FOUR:
        note(two.servers[0].url, stream, 20)
        for server in two.servers:
            answer = note(server.url, stream, 10)
            assert answer.headers["content-type"] == "application/problem+json"
            assert (answer.status_code, answer.json()["code"]) == (409, "invalid_time")
    for server in two.servers:
        assert note(server.url, "tests/none", 1).json()["code"] == "unknown_stream"


def test_the_page_of_a_controller_reaches_streams_that_another_holds(two: Controllers) -> None:
    for server in two.servers:
        url = f"{server.url}/v1/streams/tests/a/writers/unknown/expire"
        assert httpx.post(url, headers={"origin": server.url}).status_code == 404
        assert httpx.post(url, headers={"origin": "null"}).status_code == 403


def test_a_position_of_thousands_of_segments_is_passed_on(two: Controllers) -> None:
    for server in two.servers:
        with httpx.Client(base_url=server.url) as client:
            for stream in FOUR:
                target = f"/v1/streams/{stream}/marks/at?position=0:1" + "," * 70_000 + "#here"
                answer = client.get("/", extensions={"target": target.encode()})
                assert (answer.status_code, answer.json()["final"]) == (200, False)


def test_many_reports_are_split_among_the_holders_and_answered_in_order(
    two: Controllers,
) -> None:
    streams = ["tests/a", "tests/none", "tests/c", "tests/b", "none", "tests/d", "tests/a"]
    for at, server in enumerate(two.servers, start=50):
        reports = [
            {"stream": one, "writer": "w", "time": NOW + at, "position": {"0": at}}
            for one in streams
        ]
        answer = httpx.post(f"{server.url}/v1/note-times", json={"reports": reports})
        assert answer.status_code == 200
        results = answer.json()["results"]
        assert [one["status"] for one in results] == [200, 404, 200, 200, 422, 200, 200]
        assert {one.get("watermark") for one in results} == {None, NOW + at}


def test_who_creates_a_stream_at_two_controllers_at_once_gets_one(two: Controllers) -> None:
    answers: list[httpx.Response] = []

    def put(server: ServerProcess) -> None:
        url = f"{server.url}/v1/streams/race/one"
        answers.append(httpx.put(url, json={"segments": 1}, timeout=20))

    racing = [threading.Thread(target=put, args=(one,)) for one in two.servers * 3]
    for one in racing:
        one.start()
    for one in racing:
        one.join()
    assert sorted(one.status_code for one in answers) == [200] * 5 + [201]
    assert len({one.json()["stream_id"] for one in answers}) == 1
    httpx.delete(f"{two.servers[0].url}/v1/streams/race/one", timeout=20).raise_for_status()


def test_a_long_poll_at_another_controller_wakes_with_its_mark_while_others_wait_on(
    two: Controllers,
) -> None:
    holder = two.holder_of("tests/a")
    other = _other(two, holder)
    revision = httpx.get(f"{other.url}/v1/streams/tests/a").json()["revision"]
    seen: dict[int, list[int]] = {}

    def poll(after: int) -> None:
        query = {"after": after, "wait_ms": 30_000}
        answer = httpx.get(f"{other.url}/v1/streams/tests/a/marks", params=query, timeout=40)
        seen[after - revision] = [one["lower"] - NOW for one in answer.json()["marks"]]

    ends = (revision + 1, revision)
    later, sooner = (threading.Thread(target=poll, args=(after,)) for after in ends)
    for waiting, polling in enumerate((later, sooner), start=1):
        polling.start()
        holder.wait_for_waiting(waiting)
    note(holder.url, "tests/a", 70).raise_for_status()
    sooner.join()
    assert later.is_alive()  # though its time is over before that of the other
    note(holder.url, "tests/a", 71).raise_for_status()
    later.join()
    assert seen == {0: [70], 1: [71]}


def test_reader_groups_are_counted_whoever_holds_them(two: Controllers) -> None:
    create(two.servers[0].url, "log/counted", log="embedded")
    groups = [f"{one.url}/v1/reader-groups/tests/counted" for one in two.servers * 2]
    answers = [
        httpx.put(f"{group}-{at}", json={"streams": ["log/counted"]}, timeout=20)
        for at, group in enumerate(groups)
    ]
    assert [one.status_code for one in answers] == [201] * MAX_GROUPS + [409] * 2
    assert answers[-1].json()["code"] == "too_many_groups"
    for at in range(MAX_GROUPS):
        httpx.delete(f"{groups[0]}-{at}", timeout=20).raise_for_status()
    httpx.delete(f"{two.servers[0].url}/v1/streams/log/counted").raise_for_status()


def test_a_reader_group_reads_streams_of_several_holders(two: Controllers) -> None:
    names = ["log/a", "log/b", "log/c"]
    settings = {"log": "embedded", "segments": 1, "mark_interval_ms": 0}
    for name in names:
        create(two.servers[0].url, name, **settings)
    for at, server in enumerate(two.servers * 2):
        group = f"{server.url}/v1/reader-groups/tests/group"
        created = httpx.put(group, json={"streams": names}, timeout=20)
        assert created.status_code == (201 if at == 0 else 200), created.text
    for server in two.servers:
        group = f"{server.url}/v1/reader-groups/tests/group"
        joined = httpx.post(f"{group}/readers/r", timeout=20).raise_for_status().json()
        for name in names:
            window = httpx.get(f"{group}/time-window", params={"stream": name}, timeout=20)
            assert window.raise_for_status().json()["lower"] is None
        listed = httpx.get(f"{server.url}/v1/reader-groups").json()["groups"]
        assert [one["group"] for one in listed] == ["tests/group"]
    assert joined["epoch"] == 2
    httpx.delete(group, timeout=20).raise_for_status()
    for name in names:
        httpx.delete(f"{server.url}/v1/streams/{name}", timeout=20).raise_for_status()


def test_what_a_killed_controller_held_is_taken_over_once_its_lease_is_over(
    losing: Controllers,
) -> None:
    lost = losing.holder_of("tests/a")
    other = _other(losing, lost)
    note(other.url, "tests/a", 80).raise_for_status()
    wait_until(lambda: _streams_and_leases(other) == [4, 2])
    many: list[httpx.Response] = []
    reports = [
        {"stream": one, "writer": "w", "time": NOW + 81, "position": {"0": 81}} for one in FOUR
    ]
    asking = threading.Thread(
        target=lambda: many.append(
            httpx.post(f"{other.url}/v1/note-times", json={"reports": reports}, timeout=20)
        )
    )
    lost.kill()
    ((lease,),) = losing.query(
        f"SELECT expires_at FROM controllers WHERE address = '{lost.url}'"
    )
    asking.start()
    answer = note(other.url, "tests/a", 81)
    assert (answer.status_code, answer.json()["watermark"]) == (200, NOW + 81)
    asking.join()
    assert [one["watermark"] for one in many[0].json()["results"]] == [NOW + 81] * 4
    ((now,),) = losing.query("SELECT clock_timestamp()")
    assert now > lease
    assert losing.held() == [4, 0]
    wait_until(lambda: _streams_and_leases(other) == [4, 4])
    lost.start()
    wait_until(lambda: losing.held() == [2, 2, 0])


def test_who_was_paused_in_the_midst_of_a_commit_costs_nobody_else_his_lease(
    losing: Controllers,
) -> None:
    dying = (
        "INSERT INTO controllers (address, expires_at, listening_ms) "
        "VALUES ('', clock_timestamp() + interval '200 ms', 0) RETURNING id"
    )
    leases = "SELECT id FROM controllers ORDER BY id"
    living = losing.query(leases)
    with losing.connect() as paused:
        (dead,) = paused.execute(dying.encode()).fetchall()
        with paused.transaction():
            paused.execute("SELECT FROM controllers WHERE id = %s FOR KEY SHARE", dead)
            until = time.monotonic() + 2 * LEASE_MS / 1_000
            while time.monotonic() < until:
                for server in losing.servers:
                    assert note(server.url, "tests/a", 95, writer="v").status_code == 200
            assert losing.query(leases) == [*living, dead]
    wait_until(lambda: losing.query(leases) == living)


@pytest.mark.parametrize("world", [2], indirect=True)
def test_a_registration_that_lay_at_a_paused_controller_does_not_fence_its_own_writer(
    world: QuietWorld,
) -> None:
    with Api(world.controllers[0].url, "tests/c", transport=world.transport()) as api:
        api.create()
        world.sleep(5)
        paused = world.holder_of(api.name)
        (other,) = (one for one in world.controllers if one is not paused)
        path, body = f"{api.path}/writers/cut/register", {"registration_id": "first"}
        paused.node.pause_for(5)
        lying = world.begin(world.client(paused).post(path, json=body))
        world.until(lambda: world.held() == [1, 0])
        api.client.base_url = other.url
        assert api.post("writers/cut/register", **body)["incarnation"] == 1
        api.note("cut", NOW + 1, incarnation=1)
        assert world.wait(lying).json().get("incarnation", 1) == 1
        world.sleep(5)
        for one in world.controllers:
            api.client.base_url = one.url
            assert api.post("writers/cut/register", **body)["incarnation"] == 1
            api.note("cut", NOW + 2, incarnation=1)
        api.post("writers/cut/leave", incarnation=1)


@pytest.mark.parametrize("world", [2], indirect=True)
def test_a_controller_that_is_stopped_gives_everything_up_at_once(world: QuietWorld) -> None:
    for stream in FOUR:
        with Api(world.controllers[0].url, stream, transport=world.transport()) as api:
            api.create()
    world.until(lambda: world.held() == [2, 2, 0])
    leaving, other = world.controllers
    far = next(one for one in FOUR if world.holder_of(one) is other)
    near = next(one for one in FOUR if world.holder_of(one) is leaving)
    path = f"/v1/streams/{far}/marks?after=1000&wait_ms=30000"
    polling = world.begin(world.client(leaving).get(path))
    world.sleep(1)
    leaving.stop()
    world.run(leaving.until_ended())
    assert world.disk.look("SELECT address FROM controllers") == [(other.url,)]
    assert world.wait(polling).status_code == 503
    with Api(other.url, near, transport=world.transport()) as api:
        api.note("w", NOW, 1)
    world.until(lambda: world.held() == [4, 0])
    world.start(leaving)
    world.until(lambda: world.held() == [2, 2, 0])
