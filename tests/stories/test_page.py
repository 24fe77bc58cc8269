"""The page of a real service, in a real browser: a story for each page, and for what can go wrong."""

import json
import re
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.conftest import NewServer
from tests.page import HOUR, chromium, clean_page, seed_night
from tests.server import ServerProcess
from tests.service.api import Api
from tests.tokens import Tokens
from tidegauge.wire.events import NDJSON

pytestmark = pytest.mark.only_on("sqlite", "the page asks the public API alone")

FOREVER = {"aggregation_timeout_ms": None, "hold_limit_ms": None}
TABS = ("writers", "segments", "marks", "transactions", "readers", "settings")
BEYOND = 2**53 + 1
"""The first integer that a double rounds."""


def _now_ms() -> int:
    return round(time.time() * 1_000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def service(new_server: NewServer) -> Iterator[ServerProcess]:
    """One of its own: the overview shows a page of streams, and others would fill it.

    A watermark counts as held once it stands for 10 s: these streams do from the beginning, and
    the stories of them come last.
    """
    with new_server() as running:
        for name in ("held/rides", "held/chart"):
            with Api(running.url, name) as api:
                api.create(**FOREVER)
                api.note("slow", _now_ms() - 60_000, 1)
                api.note("quick", _now_ms() - 5_000, 2)
        yield running


@pytest.fixture
def home(service: ServerProcess) -> str:
    return f"{service.url}/"


def test_lists_are_read_to_their_end_and_steps_joined_where_the_next_begin(
    browser: Browser, home: str
) -> None:
    """The service knows no age of the mark before the first step that it reads."""
    known = {
        "marked_ms": [9, 19, 30],
        "lower": [1, 2, 3],
        "upper": [1, 2, 3],
        "age_ms": [9, 8, 7],
    }
    news: dict[str, list[int | None]] = {
        "marked_ms": [19, 31, 40],
        "lower": [2, 4, 5],
        "upper": [2, 4, 5],
    }
    news["age_ms"] = [None, 6, 5]
    join = "import(new URL('ui/chart.js', document.baseURI)).then(({join}) => join(...%s))"
    read = "import(new URL('ui/ask.js', document.baseURI)).then(({askAll}) => askAll(%r, %r))"
    with clean_page(browser, home) as page:
        whole = page.evaluate(read % ("v1/streams?limit=1", "streams"))["streams"]
        assert {one["stream"] for one in whole} >= {"held/rides", "held/chart"}
        assert page.evaluate(join % json.dumps([known, news, 20, 10])) == {
            "marked_ms": [9, 19, 31, 40],
            "lower": [1, 2, 4, 5],
            "upper": [1, 2, 4, 5],
            "age_ms": [9, 8, 6, 5],
        }
        late = page.evaluate(join % json.dumps([known, news, 20, 19]))
        assert late["marked_ms"] == [9, 19, 31, 40]  # the mark in force at the beginning
        late = page.evaluate(join % json.dumps([known, news, 20, 20]))
        assert late["marked_ms"] == [19, 31, 40]


def test_last_night_is_there_in_the_morning(browser: Browser, new_server: NewServer) -> None:
    morning_ms = _now_ms() - 24 * HOUR
    with new_server() as server, Api(server.url, "night/orders") as api:
        api.create(aggregation_timeout_ms=None, mark_resolution_ms=0)
        seed_night(server, api, morning_ms)
        day = time.strftime("%Y-%m-%d", time.gmtime(morning_ms / 1_000))
        with clean_page(browser, f"{server.url}/", "#stream=night/orders") as page:
            page.get_by_label("Show the night before a day").fill(day)
            expect(page).to_have_url(re.compile(f"night={day}"))
            expect(
                page.get_by_role("heading", name="How old the watermark was")
            ).to_be_visible()
            longest = page.get_by_label("Stood longest").get_by_role("listitem")
            expect(longest).to_have_text(
                ["40m from 03:00:00 gateway-7 and 1 more ", "15m from 05:30:00 gateway-9 "]
            )
            expect(page.locator(".strip a")).to_have_count(2)
            expect(page.locator(".chart canvas")).to_be_visible()
            longest.first.get_by_role("link").click()
            expect(page.locator(".strip a")).to_have_count(1)
            expect(page.locator(".strip")).to_have_text("gateway-7")
            page.goto(f"{server.url}/#stream=night/orders")  # its last mark is of long ago
            chart = page.locator(".chart")
            expect(chart).to_have_attribute("aria-label", re.compile("^1 marks"))
            with page.expect_response(re.compile("marks/history")):
                api.note("gateway-1", _now_ms(), 10_000)
            expect(chart).to_have_attribute("aria-label", re.compile("^2 marks"))


def test_a_split_and_a_merge_appear(
    browser: Browser, service: ServerProcess, home: str
) -> None:
    with Api(service.url, "split/one") as api:
        api.create(log="embedded", segments=1)
        with clean_page(browser, home, "#stream=split/one&tab=segments") as page:
            rows = page.locator("tbody tr")
            expect(rows).to_have_count(1)
            api.post("scale", seal=[0], ranges=[[0, 0.5], [0.5, 1]])
            api.post("scale", seal=[1, 2], ranges=[[0, 1]])
            expect(rows).to_have_count(4)
            expect(rows.first).to_contain_text(re.compile(r"^3 0\.000 to 1\.000.*open1, 2"))
            expect(page.locator(".facts")).to_contain_text("segments1 open3 sealed")


def test_a_reader_that_lags_is_named(
    browser: Browser, service: ServerProcess, home: str
) -> None:
    group = "/v1/reader-groups/lag/billing"
    with Api(service.url, "lag/orders") as api:
        api.log = "embedded"
        api.create()
        client = api.client
        reads = {"streams": ["lag/orders"], "dead_after_ms": HOUR}
        client.put(group, json=reads).raise_for_status()
        epoch = client.post(f"{group}/readers/sleepy").json()["epoch"]
        state = client.get(f"{group}/state")
        document = state.json()
        document["readers"]["sleepy"]["owned"] |= document["unassigned"]
        document["unassigned"] = {}
        etag = {"if-match": state.headers["etag"]}
        client.put(f"{group}/state", json=document, headers=etag).raise_for_status()
        client.post(
            f"{api.path}/events",
            content='{"key": "a", "event_time": 1, "value": "x"}\n' * 40,
            headers={"content-type": NDJSON},
            params={"writer": "w", "note_time": _now_ms()},
        ).raise_for_status()
        progress = {
            "lag_ms": 61_000,
            "backlog": 40,
            "late": 7,
            "late_writers": {"b": 2, "a": 5},
        }
        client.post(f"{group}/progress", json=progress).raise_for_status()
        with clean_page(browser, home, "#stream=lag/orders&tab=readers") as page:
            page.get_by_role("link", name="lag/billing").click()
            row = page.get_by_role("row").filter(has_text="lag/orders")
            expect(row).to_contain_text(re.compile("nothing yetall of it40sleepy 1 segments"))
            expect(page.locator(".facts")).to_contain_text("behind the watermark1m 1s")
            late = page.get_by_role("table").last.get_by_role("row")
            expect(late).to_have_text(["writerrows", "a5", "b2"])
            read = {"epoch": epoch, "position": {"lag/orders": {"0": 40}}}
            client.post(f"{group}/readers/sleepy/position", json=read).raise_for_status()
            expect(row).to_contain_text("caught up")


def test_streams_of_every_kind_are_shown_true(
    browser: Browser, service: ServerProcess, home: str
) -> None:
    with Api(service.url, "kinds/beyond") as api:
        api.create(max_future_skew_ms=None, min_writers=2)
        api.note("trainer", BEYOND, 1)
        api.note("ahead", BEYOND + 4, 1)
    with Api(service.url, "kinds/least") as api:
        api.create()
        api.note("begins", -(2**63), 1)
    with Api(service.url, "kinds/ended") as api:
        api.create()
        api.post("seal", position={"0": 0})
    with Api(service.url, "kinds/staged") as api:
        api.create(log="embedded", segments=2, aggregation_timeout_ms=90_000)
        api.note("stager", _now_ms())
        api.post("transactions", writer="stager")
    exact = f"{BEYOND:,}"
    with clean_page(browser, home, "#q=kinds/", refused=True) as page:
        for name, text in (("beyond", exact), ("ended", "the end of time")):
            row = page.get_by_role("row").filter(has_text=f"kinds/{name}")
            expect(row).to_contain_text(text)
        page.goto(f"{home}#stream=kinds/beyond&tab=marks&span=1e999&since=2&until=x&view=age")
        expect(page.locator(".facts")).to_contain_text(f"complete up to{exact}")
        expect(page.locator(".facts")).to_contain_text("spread of writers4")
        expect(page.locator("tbody td").nth(1)).to_have_text(exact)
        over = page.locator(".chart .u-over")
        over.hover(position={"x": over.evaluate("node => node.clientWidth") - 2, "y": 100})
        expect(page.locator(".tip")).to_contain_text(
            f"complete up to{exact}noted up to{BEYOND + 4:,}"
        )
        expect(page.get_by_role("link", name="transactions")).to_have_count(0)
        page.goto(f"{home}#stream=kinds/least")
        expect(page.locator(".facts")).to_contain_text(f"complete up to{-(2**63):,}")
        for name in ("show age", "show event time", "last night"):
            page.get_by_role("link", name=name).click()
        page.goto(f"{home}#stream=kinds/ended")
        expect(page.get_by_role("heading", level=1)).to_have_text("ended ")
        page.goto(f"{home}#stream=kinds/staged&tab=transactions")
        expect(page.locator("tbody")).to_contain_text("stager")
        page.get_by_role("link", name="settings").click()
        rows = page.locator("tbody tr")
        expect(rows.filter(has_text="aggregation_timeout_ms")).to_contain_text(
            "1m 30s1mHow long a"
        )
        expect(rows.filter(has_text="scaling")).to_contain_text("scalingfixedHow the number")
        page.goto(f"{home}#stream=kinds/nosuch")
        expect(page.locator("main")).to_contain_text("there is no stream kinds/nosuch")
        page.goto(f"{home}#stream=no%20name&tab=nothing")
        expect(page.locator("main")).to_contain_text("'no name'")


def test_a_service_with_tokens_asks_for_one(
    browser: Browser, new_server: NewServer, tmp_path: Path
) -> None:
    tokens = Tokens(tmp_path)
    text, elsewhere = (tokens.text(scope, scope, "observe") for scope in ("shop", "elsewhere"))
    every = tokens.header("all", "*", "operate")
    with new_server(tokens=tokens.file) as server:
        url = f"{server.url}/"
        httpx.put(f"{url}v1/streams/shop/orders", json={}, headers=every).raise_for_status()
        with clean_page(browser, url, "#stream=shop/orders", refused=True) as page:
            box, title = page.get_by_label("Token"), page.get_by_role("heading", level=1)
            expect(title).to_have_text("This service wants a token")
            for wrong in ("tg_…", "tg_wrong"):
                box.fill(wrong)
                box.press("Enter")
                expect(title).to_have_text("This token is not accepted")
            box.fill(elsewhere)
            box.press("Enter")
            expect(page.locator("main")).to_contain_text(
                "Your token does not suffice: token 'elsewhere'"
            )
            page.goto(url)
            expect(title).to_have_text("No stream that your token may see")
            page.evaluate("sessionStorage.clear()")
            page.reload()
            box.fill(text)
            page.get_by_role("button", name="Use it").click()
            expect(page.get_by_role("link", name="shop/orders")).to_be_visible()
            page.reload()
            expect(page.get_by_role("link", name="shop/orders")).to_be_visible()
            assert page.url == url
            assert page.evaluate("localStorage.length") == 0


def test_a_service_without_streams_teaches_by_commands_to_copy(
    browser: Browser, new_server: NewServer
) -> None:
    with new_server() as server, clean_page(browser, f"{server.url}/") as page:
        expect(page.locator("main")).to_contain_text("A watermark is the event time up to")
        commands = page.locator(".command")
        expect(commands).to_have_count(3)
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.get_by_role("button", name="copy").first.click()
        expect(page.get_by_text("copied")).to_be_visible()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied == f"tidegauge create demo/first --url {server.url}"
        with Api(server.url, "demo/first") as api:
            api.create(log="embedded")
            api.note("sensor-1", _now_ms())
        row = page.get_by_role("row").filter(has_text="demo/first")
        expect(row).to_contain_text("1 active")


def test_the_keyboard_alone_reaches_everything(
    browser: Browser, service: ServerProcess, home: str
) -> None:
    for name in ("alpha", "beta"):
        with Api(service.url, f"keys/{name}") as api:
            api.create(log="embedded")
            api.note("w", _now_ms())
    with clean_page(browser, home) as page:
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
        expect(page).to_have_url(re.compile(rf"#stream={name}"))
        expect(page.locator(".tabs")).to_be_visible()
        reached = set()
        for _ in range(40):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.innerText || ''").strip())
        assert {"5 min", "1 h", "last night", *TABS} <= reached
        for key, address in (("g", "show=groups"), ("?", "show=help"), ("o", "")):
            page.keyboard.press(key)
            expect(page).to_have_url(f"{home}#{address}")
        page.go_back()
        expect(page.get_by_role("heading", level=1)).to_have_text("Help")
        expect(page.locator(".words")).to_contain_text(["too few writers", "next row"])
        expect(page.locator(".version")).to_have_text(version("tidegauge"))


@pytest.mark.parametrize("width", [390, 1_280])
def test_every_page_fits_and_is_clean(
    browser: Browser, service: ServerProcess, home: str, width: int
) -> None:
    long = "n" * 255
    stream, table = f"clean{width}/{long}", f"clean{width}/table"
    with Api(service.url, stream) as api:
        api.create(log="embedded", segments=2, **FOREVER)
        for letter in ("n", *"xyz"):
            api.note(letter * 255, _now_ms() - (60_000 if letter == "n" else 0))
        api.post("transactions", writer=long)
        group = f"/v1/reader-groups/{stream}"
        api.client.put(group, json={"streams": [stream]}).raise_for_status()
        api.client.post(f"{group}/readers/{long}").raise_for_status()
        progress = {"late": 1, "late_writers": {long: 1}}
        api.client.post(f"{group}/progress", json=progress).raise_for_status()
    with Api(service.url, table) as api:
        api.create(table=long)
        api.note(long, _now_ms(), 33)
    addresses = [
        "",
        *(f"#stream={table}&tab={tab}" for tab in ("segments", "settings")),
        "#show=groups",
        "#show=help",
        f"#group={stream}",
        *(f"#stream={stream}&tab={tab}" for tab in TABS),
    ]
    size: Any = {"width": width, "height": 900}
    with clean_page(browser, home, viewport=size) as page:
        for address in addresses:
            page.goto(home + address)
            expect(page.get_by_role("heading", level=1).first).to_be_visible()
            expect(page.get_by_text("Loading …")).to_have_count(0)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, address


def test_a_held_stream_shows_who_holds_it_and_lets_go(
    browser: Browser, service: ServerProcess, home: str
) -> None:
    with clean_page(browser, home) as page:
        row = page.get_by_role("row").filter(has_text="held/rides")
        expect(row).to_contain_text(re.compile(r"held slow for [\dm ]+s never dropped"))
        expect(page).to_have_title(re.compile(r"^\d held · Tidegauge$"))
        pills = page.get_by_role("navigation", name="By state")
        pills.get_by_role("link", name="held").click()
        expect(page).to_have_url(f"{home}#state=held")
        page.get_by_role("searchbox").fill("SLOW")
        row.get_by_role("link", name="held/rides").click()
        expect(page).to_have_url(f"{home}#stream=held/rides")
        head = page.get_by_role("heading", level=1)
        expect(head).to_contain_text(re.compile(r"held by slow for [\dm ]+s"))
        expect(page.locator(".sentence").first).to_contain_text("holds it while 'quick' waits")
        command = f"tidegauge expire held/rides slow --url {service.url}"
        expect(page.locator(".command")).to_have_text(command)
        expect(page.locator(".facts")).to_contain_text("spread of writers55s")
        with Api(service.url, "held/rides") as api:
            for writer in ("slow", "quick"):
                api.note(writer, _now_ms() - 4_000, 3)
        expect(head).not_to_contain_text("held")


def test_a_writer_has_one_colour_and_the_chart_says_what_was_at_the_cursor(
    browser: Browser, home: str
) -> None:
    with clean_page(browser, home, "#stream=held/chart") as page:
        band = page.locator(".strip a")
        expect(band).to_have_attribute("title", re.compile(r"^slow, [\dm ]+s from "))
        shades = {
            page.locator(one).evaluate("node => getComputedStyle(node).backgroundColor")
            for one in (
                ".strip a",
                "h1 .dot",
                ".longest .dot",
                ".track i >> nth=0",
                "td .dot >> nth=0",
            )
        }
        assert len(shades) == 1
        over, tip = page.locator(".chart .u-over"), page.locator(".tip")
        wide = over.evaluate("node => node.clientWidth")
        over.hover(position={"x": wide - 2, "y": 100})
        expect(tip).to_contain_text(re.compile("complete up to.*noted up to.*held byslow"))
        page.get_by_role("link", name="show age").click()
        expect(page).to_have_url(re.compile("view=age"))
        over.hover(position={"x": wide - 2, "y": 100})
        expect(tip).to_contain_text(re.compile(r"age\d+m"))
        page.mouse.down()
        over.hover(position={"x": wide - 40, "y": 100})
        page.mouse.up()
        expect(page).to_have_url(re.compile(r"since=\d+&until=\d+"))
        page.get_by_role("link", name="back to now").click()
        page.get_by_role("link", name="1 h").click()
        expect(page).to_have_url(re.compile("span=3600000"))
