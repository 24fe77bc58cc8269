"""The dashboard of a real service, in a real browser."""

import re
import subprocess
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route, expect
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.conftest import NewServer
from tests.dashboard import DashboardProcess, chromium, clean_page
from tests.patience import PATIENCE_S, wait_until
from tests.server import ServerProcess, free_port, is_well
from tests.service.api import Api

pytestmark = pytest.mark.only_on("sqlite", "the dashboard asks the public API alone")

expect.set_options(timeout=PATIENCE_S * 1_000)
TABS = ("writers", "segments", "marks", "readers", "settings")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def service(new_server: NewServer) -> Iterator[ServerProcess]:
    """One of its own: the overview shows a page of streams, and others would fill it."""
    with new_server() as running:
        yield running


@pytest.fixture(scope="module")
def dashboard(
    service: ServerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DashboardProcess]:
    with DashboardProcess(tmp_path_factory.mktemp("ui"), service.url) as found:
        yield found


def _now_ms() -> int:
    return round(time.time() * 1_000)


def test_a_held_stream_shows_who_holds_it_and_lets_go(
    browser: Browser, dashboard: DashboardProcess, service: ServerProcess
) -> None:
    now_ms = _now_ms()
    with Api(service.url, "held/rides") as api:
        api.create(aggregation_timeout_ms=None, hold_limit_ms=None)
        api.note("slow", now_ms - 60_000, 1)
        api.note("quick", now_ms - 5_000, 2)
        with clean_page(browser, dashboard.url) as page:
            row = page.get_by_role("row").filter(has_text="held/rides")
            expect(row).to_contain_text("held")
            expect(row).to_contain_text("slow")
            row.get_by_role("link").first.click()
            expect(page.get_by_role("heading", level=1)).to_contain_text("Held by slow for")
            expect(page.locator(".bar .service")).to_have_text(service.url)
            expect(page.locator(".race .holds .who")).to_have_text("slow")
            expect(page.locator(".chart canvas")).to_be_visible()
            api.note("slow", _now_ms() - 4_000, 3)
            api.note("quick", _now_ms() - 4_000, 3)
            expect(page.get_by_role("heading", level=1)).not_to_contain_text("Held")


def test_a_stream_that_has_no_mark_yet_shows_what_to_type(
    browser: Browser, dashboard: DashboardProcess, service: ServerProcess
) -> None:
    with Api(service.url, "begins/rides") as api:
        api.create()
        api.post("writers/slow/register")
        api.note("quick", _now_ms(), 1)
        with clean_page(browser, dashboard.url, "?stream=begins/rides") as page:
            expect(page.locator("code.command")).to_have_text(
                f"tidegauge expire begins/rides slow --url {service.url}"
            )


def test_the_chart_says_what_was_at_the_cursor_and_what_nobody_watched(
    browser: Browser, dashboard: DashboardProcess, service: ServerProcess
) -> None:
    with Api(service.url, "cursor/rides") as api:
        api.create(max_future_skew_ms=None, aggregation_timeout_ms=None, hold_limit_ms=None)
        api.note("slow", 1_500, 1)
        api.note("quick", 7_800, 2)
        with clean_page(browser, dashboard.url, "?stream=cursor/rides") as page:
            expect(page.get_by_role("heading", level=1)).to_contain_text("Held by slow")
            over, tip = page.locator(".chart .u-over"), page.locator(".tip")
            wide = over.evaluate("node => node.clientWidth")
            over.hover(position={"x": wide - 1, "y": 100})
            for text in ("watermark1,500", "noted up to7,800", "held byslow"):
                expect(tip).to_contain_text(text)
            over.hover(position={"x": 5, "y": 100})
            expect(tip).to_contain_text("held bynot watched")
            unseen = page.locator(".strip .unseen")
            hatching = "node => getComputedStyle(node).backgroundImage"
            assert "repeating-linear-gradient" in unseen.first.evaluate(hatching)
            page.get_by_role("heading", level=1).hover()
            expect(tip).to_have_count(0)


def test_a_split_and_a_merge_appear(
    browser: Browser, dashboard: DashboardProcess, service: ServerProcess
) -> None:
    with Api(service.url, "split/one") as api:
        api.create(log="embedded", segments=1)
        with clean_page(browser, dashboard.url, "?stream=split/one&tab=segments") as page:
            boxes = page.locator("[data-segment]")
            expect(boxes).to_have_count(1)
            api.post("scale", seal=[0], ranges=[[0, 0.5], [0.5, 1]])
            expect(boxes).to_have_count(3)
            api.post("scale", seal=[1, 2], ranges=[[0, 1]])
            expect(boxes).to_have_count(4)
            expect(page.locator(".segment.sealed")).to_have_count(3)


def test_a_reader_that_lags_is_named(
    browser: Browser, dashboard: DashboardProcess, service: ServerProcess
) -> None:
    now_ms = _now_ms()
    with Api(service.url, "lag/orders") as api:
        api.create(log="embedded", segments=1)
        client = api.client
        group = "/v1/reader-groups/lag/billing"
        client.put(group, json={"streams": ["lag/orders"]}).raise_for_status()
        epoch = client.post(f"{group}/readers/sleepy").json()["epoch"]
        state = client.get(f"{group}/state")
        document = state.json()
        document["readers"]["sleepy"]["owned"] |= document["unassigned"]
        document["unassigned"] = {}
        client.put(
            f"{group}/state", json=document, headers={"if-match": state.headers["etag"]}
        ).raise_for_status()
        lines = '{"key": "a", "event_time": 1, "value": "x"}\n' * 40
        client.post(
            f"{api.path}/events",
            content=lines,
            headers={"content-type": "application/x-ndjson"},
            params={"writer": "w", "note_time": now_ms},
        ).raise_for_status()
        progress = {
            "lag_ms": 61_000,
            "backlog": 40,
            "late": 7,
            "late_writers": {"b": 2, "a": 5},
        }
        client.post(f"{group}/progress", json=progress).raise_for_status()
        with clean_page(browser, dashboard.url, "?group=lag/billing") as page:
            expect(page.locator("main")).to_contain_text("sleepy (40 events)")
            expect(page.locator(".gauges")).to_contain_text("behind the watermark1m 1s")
            late = page.locator("section", has_text="Late rows by writer").locator(".lane")
            expect(late).to_have_text(["a5", "b2"])
            position = {"lag/orders": {"0": 40}}
            client.post(
                f"{group}/readers/sleepy/position", json={"epoch": epoch, "position": position}
            ).raise_for_status()
            expect(page.get_by_role("heading", level=1)).to_have_text(
                "Caught up with the watermark"
            )


def test_streams_of_every_kind_are_shown_true(
    browser: Browser, dashboard: DashboardProcess, service: ServerProcess
) -> None:
    with Api(service.url, "kinds/logical") as api:
        api.create(max_future_skew_ms=None)
        api.note("trainer", 3_820, 1)
    with Api(service.url, "kinds/ended") as api:
        api.create()
        api.post("seal", position={"0": 0})
    with Api(service.url, "kinds/staged") as api:
        api.create(log="embedded", segments=1)
        api.note("stager", _now_ms())
        api.post("transactions", writer="stager")
    with Api(service.url, "kinds/beyond") as api:
        api.create(max_future_skew_ms=None, min_writers=2)
        api.note("a", 2**63 - 2, 1)
    wanted = {"logical": "3,820 logical", "ended": "end of time"}
    with clean_page(browser, dashboard.url, "?q=kinds/") as page:
        for name, text in wanted.items():
            row = page.get_by_role("row").filter(has_text=f"kinds/{name}")
            expect(row).to_contain_text(text)
        page.goto(f"{dashboard.url}?stream=kinds/ended")
        expect(page.get_by_role("heading", level=1)).to_have_text("Ended: nothing follows")
        page.goto(f"{dashboard.url}?stream=kinds/staged")
        expect(page.locator(".notes")).to_contain_text("1 open transaction")
        page.goto(f"{dashboard.url}?stream=kinds/staged&tab=settings")
        expect(page.get_by_role("row").filter(has_text="stager")).to_be_visible()
        beyond = f"{dashboard.url}?stream=kinds/beyond&span=1e999&prefix={700 * 'p'}"
        page.goto(beyond)
        expect(page.locator(".chart canvas")).to_be_visible()
        page.goto(f"{dashboard.url}?stream=no%20name&tab=nothing")
        expect(page.locator("main")).to_contain_text("'no name'")
        page.goto(f"{dashboard.url}?stream=kinds/nosuch")
        expect(page.locator("main")).to_contain_text("there is no stream kinds/nosuch")


def test_an_outage_is_told_and_ends_by_itself(
    browser: Browser, new_server: NewServer, tmp_path: Path
) -> None:
    with new_server() as server:
        with Api(server.url, "out/age") as api:
            api.create()
            api.note("slow", _now_ms() - 9_000, 1)
            api.note("quick", _now_ms(), 1)
        with (
            DashboardProcess(tmp_path, server.url) as dashboard,
            clean_page(browser, dashboard.url, "?stream=out/age") as page,
        ):
            head = page.get_by_role("heading", level=1)
            expect(head).to_contain_text("Held by slow for")
            server.kill()
            alert = page.get_by_role("alert")
            expect(alert).to_contain_text(f"No answer from {server.url} since")
            # nobody is dropped meanwhile: what was seen last stands still, the clock does not
            seen, clock = head.inner_text(), page.locator(".bar .clock")
            for _ in range(2):
                expect(clock).not_to_have_text(clock.inner_text())
            assert head.inner_text() == seen
            server.start()
            expect(alert).to_have_count(0)


def test_a_page_of_another_site_gets_no_socket(dashboard: DashboardProcess) -> None:
    socket = f"ws://127.0.0.1:{dashboard.port}/socket"
    for origin in ("http://evil.example", f"http://127.0.0.1:{dashboard.port + 1}"):
        with pytest.raises(InvalidStatus, match="403"):
            connect(socket, additional_headers={"origin": origin})
    own = {"origin": dashboard.url.rstrip("/")}
    with connect(socket, additional_headers=own) as allowed:
        allowed.send('{"kind": "overview"}')
        assert '"kind":"overview"' in str(allowed.recv(PATIENCE_S))


PROXY = """
global
  maxconn 100
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  timeout tunnel 1h
frontend outside
  bind 127.0.0.1:{port}
  http-request replace-path /gauge/(.*) /\\1
  default_backend dashboard
backend dashboard
  server one 127.0.0.1:{dashboard}
"""


@pytest.fixture
def below_a_prefix(dashboard: DashboardProcess, tmp_path: Path) -> Iterator[str]:
    """The dashboard behind a proxy that serves it at ``/gauge/``."""
    port = free_port()
    settings = tmp_path / "haproxy.cfg"
    settings.write_text(PROXY.format(port=port, dashboard=dashboard.port))
    with subprocess.Popen(["haproxy", "-db", "-f", str(settings)]) as proxy:
        url = f"http://127.0.0.1:{port}/gauge/"
        wait_until(lambda: is_well(f"{url}healthz"))
        yield url
        proxy.terminate()


def test_it_works_below_a_prefix_of_a_proxy(
    browser: Browser, below_a_prefix: str, service: ServerProcess
) -> None:
    with Api(service.url, "prefix/one") as api:
        api.create()
    with clean_page(browser, below_a_prefix, "?q=prefix/") as page:
        page.get_by_role("link", name="prefix/one").click()
        expect(page.locator(".chart canvas")).to_be_visible()
        expect(page).to_have_url(f"{below_a_prefix}?stream=prefix/one")
        page.get_by_role("link", name="Tidegauge").click()
        expect(page).to_have_url(below_a_prefix)
        expect(page.get_by_role("link", name="prefix/one")).to_be_visible()


def test_a_service_without_streams_teaches_by_commands_to_copy(
    browser: Browser, new_server: NewServer, tmp_path: Path
) -> None:
    with (
        new_server() as server,
        DashboardProcess(tmp_path, server.url) as dashboard,
        clean_page(browser, dashboard.url) as page,
    ):
        expect(page.locator("main")).to_contain_text("A watermark is the event time up to")
        commands = page.locator("code.command")
        expect(commands).to_have_count(3)
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.get_by_role("button", name="Copy the command").first.click()
        expect(page.get_by_text("copied")).to_be_visible()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied == f"tidegauge create demo/first --url {server.url}"
        with Api(server.url, "demo/first") as api:
            api.create(log="embedded")
            api.note("sensor-1", _now_ms())
        expect(page.get_by_role("row").filter(has_text="demo/first")).to_contain_text(
            "1 active"
        )


def test_columns_sort_and_the_title_counts_what_is_held(
    browser: Browser, dashboard: DashboardProcess, service: ServerProcess
) -> None:
    for name, times in (("one", [5]), ("two", [4, 9]), ("three", [3, 7, 8])):
        with Api(service.url, f"sort/{name}") as api:
            api.create(max_future_skew_ms=None, aggregation_timeout_ms=None, hold_limit_ms=None)
            for place, at in enumerate(times):
                api.note(f"w{place}", at, 1)
    with clean_page(browser, dashboard.url, "?q=sort/") as page:
        names = page.locator("td.name")
        expect(names).to_have_count(3)
        head = page.get_by_role("columnheader", name="watermark")
        head.get_by_role("link").click()
        expect(names).to_have_text(["sort/three", "sort/two", "sort/one"])
        expect(head).to_have_attribute("aria-sort", "ascending")
        head.get_by_role("link").click()
        expect(names).to_have_text(["sort/one", "sort/two", "sort/three"])
        expect(page).to_have_url(re.compile(r"sort=-watermark"))
        expect(page).to_have_title(re.compile(r"^\d+ held · Tidegauge$"))
        page.goto(f"{dashboard.url}?stream=sort/three&sort=-stand")
        expect(page.locator(".writers td.who")).to_have_text(["w2", "w1", "w0"])
        expect(page.get_by_role("img", name="the watermark stayed at 3")).to_be_visible()


def test_groups_help_and_keys_are_reached_from_every_page(
    browser: Browser, dashboard: DashboardProcess, service: ServerProcess
) -> None:
    with Api(service.url, "found/orders") as api:
        api.create()
        group = "/v1/reader-groups/found/billing"
        api.client.put(group, json={"streams": ["found/orders"]}).raise_for_status()
    with clean_page(browser, dashboard.url, "?stream=found/orders") as page:
        rooms = page.get_by_role("navigation", name="Pages of the dashboard")
        rooms.get_by_role("link", name="Groups").click()
        late: list[Route] = []
        page.route("**/static/group.js", lambda route: late.append(route))  # noqa: PLW0108
        with page.expect_request("**/static/group.js"):
            page.get_by_role("link", name="found/billing").click()
        expect(page).to_have_url(re.compile(r"\?group=found/billing"))
        rooms.get_by_role("link", name="Help").click()
        title = page.get_by_role("heading", level=1)
        expect(title).to_have_text("Help")
        # The code of a page that you have left comes late: it replaces nothing.
        late[0].continue_()
        page.evaluate("import(new URL('static/group.js', document.baseURI))")
        expect(title).to_have_text("Help", timeout=1_000)
        expect(rooms).to_contain_text(version("tidegauge"))
        page.keyboard.press("?")
        expect(page.get_by_role("dialog", name="Keys")).to_contain_text("next row")
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog", name="Keys")).to_have_count(0)
        page.keyboard.press("g")
        expect(page).to_have_url(re.compile(r"show=groups"))


def test_the_keyboard_alone_reaches_everything(
    browser: Browser, dashboard: DashboardProcess, service: ServerProcess
) -> None:
    for name in ("alpha", "beta"):
        with Api(service.url, f"keys/{name}") as api:
            api.create()
            api.note("w", _now_ms(), 1)
    with clean_page(browser, dashboard.url) as page:
        expect(page.get_by_role("row").filter(has_text="keys/alpha")).to_be_visible()
        page.keyboard.press("/")
        page.keyboard.type("keys/")
        page.keyboard.press("Escape")
        expect(page.locator("[data-row]")).to_have_count(2)
        page.keyboard.press("j")
        page.keyboard.press("j")
        second = page.locator("[data-row]").nth(1)
        expect(second).to_be_focused()
        assert "solid" in second.evaluate("node => getComputedStyle(node).outlineStyle")
        name = second.inner_text()
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile(rf"\?stream={name}"))
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        reached = set()
        for _ in range(40):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.innerText || ''").strip())
        assert {"5 min", "1 h", *TABS} <= reached
        page.keyboard.press("o")
        expect(page.locator("[data-row]").first).to_be_visible()


def test_a_browser_that_keeps_nothing_shows_it_all_the_same(
    browser: Browser, dashboard: DashboardProcess
) -> None:
    with clean_page(browser, dashboard.url) as page:
        blocked = "{get() { throw new DOMException('', 'SecurityError') }}"
        page.add_init_script(f"Object.defineProperty(window, 'localStorage', {blocked})")
        page.reload()
        page.get_by_role("button", name="UTC").click()
        expect(page.get_by_role("button", name="local")).to_be_visible()
        page.get_by_role("button", name="Light or dark").click()
        expect(page.locator("html[data-theme=dark]")).to_have_count(1)
        expect(page.locator("body")).to_have_css("background-color", "rgb(12, 20, 27)")


@pytest.mark.parametrize("width", [360, 1_280])
def test_every_page_fits_and_is_clean(
    browser: Browser, dashboard: DashboardProcess, service: ServerProcess, width: int
) -> None:
    long = "n" * 255
    stream = f"clean{width}/{long}"
    with Api(service.url, stream) as api:
        api.create(log="embedded", segments=2, aggregation_timeout_ms=None, hold_limit_ms=None)
        api.note(long, _now_ms() - 60_000)
        for letter in "xyz":
            api.note(letter * 255, _now_ms())
        api.post("transactions", writer=long)
        group = f"/v1/reader-groups/{stream}"
        api.client.put(group, json={"streams": [stream]}).raise_for_status()
        api.client.post(f"{group}/readers/{long}").raise_for_status()
        progress = {"late": 1, "late_writers": {long: 1}}
        api.client.post(f"{group}/progress", json=progress).raise_for_status()
    table = f"clean{width}/table"
    with Api(service.url, table) as api:
        api.create(table=long)
        api.note(long, _now_ms(), 33)
    addresses = [
        "",
        *(f"?stream={table}&tab={tab}" for tab in ("segments", "settings")),
        "?show=groups",
        "?show=help",
        f"?group={stream}",
        *(f"?stream={stream}&tab={tab}" for tab in TABS),
    ]
    with clean_page(browser, dashboard.url) as page:
        page.set_viewport_size({"width": width, "height": 900})
        for address in addresses:
            page.goto(dashboard.url + address)
            expect(page.get_by_role("heading", level=1).first).to_be_visible()
            expect(page.get_by_text("Loading …")).to_have_count(0)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, address
            if "tab=writers" in address:
                expect(page.locator(".race .holds .who")).to_be_visible()
                expect(page.locator(f".list td[title={long}]")).to_be_visible()
                expect(page.locator(f"h1 [title={long}]")).to_be_visible()
                assert page.evaluate("document.documentElement.scrollWidth") <= width
