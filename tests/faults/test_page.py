"""The page in a real browser: what can go wrong around it, and what few browsers do."""

import json
import re
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.conftest import NewServer
from tests.page import chromium, clean_page
from tests.patience import wait_until
from tests.server import ServerProcess, free_port, is_well
from tests.service.api import NOON, Api, Open
from tests.service.controllers import STREAM, Controllers, note

pytestmark = pytest.mark.only_on("sqlite", "the page asks the public API alone")

_PROXY = """
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend outside
  bind 127.0.0.1:{port}
  http-request replace-path /gauge/(.*) /\\1
  default_backend service
backend service
  server one 127.0.0.1:{service}
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def home(shared_server: ServerProcess) -> str:
    return f"{shared_server.url}/"


@pytest.fixture
def below_a_prefix(shared_server: ServerProcess, tmp_path: Path) -> Iterator[str]:
    """The service behind a proxy that serves it at ``/gauge/``."""
    port = free_port()
    settings = tmp_path / "haproxy.cfg"
    settings.write_text(_PROXY.format(port=port, service=shared_server.port))
    with subprocess.Popen(["haproxy", "-db", "-f", str(settings)]) as proxy:
        url = f"http://127.0.0.1:{port}/gauge/"
        wait_until(lambda: is_well(f"{url}healthz"))
        yield url
        proxy.terminate()


def test_an_outage_is_told_and_ends_by_itself(browser: Browser, new_server: NewServer) -> None:
    with new_server() as server:
        with Api(server.url, "out/age") as api:
            api.create()
            api.note("w", round(time.time() * 1_000) - 9_000, 1)
        with clean_page(browser, f"{server.url}/", "#stream=out/age", refused=True) as page:
            age = page.locator(".facts dd").first
            expect(age).to_have_text(re.compile(r"\d+s"))
            server.kill()
            alert = page.get_by_role("alert")
            expect(alert).to_contain_text(f"No answer from 127.0.0.1:{server.port} since")
            # what was seen last stands still, the clock does not
            seen, clock = age.inner_text(), page.locator(".clock")
            for _ in range(2):
                expect(clock).not_to_have_text(clock.inner_text())
            assert age.inner_text() == seen
            problem = {"status": 404, "json": {"detail": "it was deleted"}}
            page.route("**/v1/**", lambda route: route.fulfill(**problem))
            server.start()
            expect(page.locator("main")).to_contain_text("It is not there: it was deleted")
            expect(alert).to_have_count(0)
            page.unroute("**/v1/**")
            expect(age).not_to_have_text(seen)


def test_a_controller_that_stands_by_says_who_holds_until_it_does(
    browser: Browser, two: Controllers
) -> None:
    holder, (standby,) = two.holder, two.standbys
    note(holder.url, STREAM, 1)
    with clean_page(browser, f"{standby.url}/", f"#stream={STREAM}", refused=True) as page:
        alert = page.get_by_role("alert")
        expect(alert).to_contain_text(
            f"This controller stands by; {holder.url} holds the database"
        )
        link = alert.get_by_role("link")
        expect(link).to_have_attribute("href", f"{holder.url}/#stream={STREAM}")
        holder.kill()
        expect(alert).to_have_count(0)
        expect(page.locator(".path")).to_have_text(STREAM)


def test_it_works_below_a_prefix_of_a_proxy(
    browser: Browser, below_a_prefix: str, shared_server: ServerProcess
) -> None:
    with Api(shared_server.url, "prefix/one") as api:
        api.create()
        api.post("writers/slow/register")
        api.note("quick", round(time.time() * 1_000), 1)
    with clean_page(browser, below_a_prefix, "?utm_source=chat#q=prefix/") as page:
        page.get_by_role("link", name="prefix/one").click()
        command = f"tidegauge expire prefix/one slow --url {below_a_prefix.rstrip('/')}"
        expect(page.locator(".command")).to_have_text(command)
        expect(page.locator(".chart-card")).to_contain_text("No mark: nothing was complete")
        page.get_by_role("link", name="Help").click()
        page.get_by_role("link", name="All calls of the service").click()
        page.locator(".opblock").first.wait_for()


def test_columns_sort_and_a_row_keeps_its_place_while_it_has_the_focus(
    browser: Browser, shared_server: ServerProcess, home: str
) -> None:
    for number, name in enumerate(("one", "two", "three")):
        with Api(shared_server.url, f"sort/{name}") as api:
            api.create(aggregation_timeout_ms=None, hold_limit_ms=None)
            api.note("w", NOON - number, 1)
    with clean_page(browser, home, "#q=sort/") as page:
        names = page.locator("td.name")
        head = page.get_by_role("columnheader", name="behind")
        head.get_by_role("link").click()
        expect(names).to_have_text(["sort/three", "sort/two", "sort/one"])
        expect(head).to_have_attribute("aria-sort", "ascending")
        focused = page.get_by_role("link", name="sort/three")
        focused.focus()
        with Api(shared_server.url, "sort/three") as api:
            api.note("w", NOON + 9, 2)
        with Api(shared_server.url, "sort/two") as api:
            api.note("w", NOON + 5, 2)
        expect(names).to_have_text(["sort/three", "sort/one", "sort/two"])
        expect(focused).to_be_focused()
        focused.evaluate("node => node.blur()")
        expect(names).to_have_text(["sort/one", "sort/two", "sort/three"])
        head.get_by_role("link").click()
        expect(names).to_have_text(["sort/three", "sort/two", "sort/one"])
        expect(page).to_have_url(re.compile("sort=behind&down=1"))


def test_times_are_shown_in_utc_or_as_in_the_zone_of_the_browser(
    browser: Browser, shared_server: ServerProcess, home: str
) -> None:
    with Api(shared_server.url, "zones/one") as api:
        api.create()
        api.note("w", NOON, 1)
    now = datetime.now(UTC)
    elsewhere = "Pacific/Honolulu" if now.hour < 10 else "Pacific/Kiritimati"  # another day
    local, address = ZoneInfo(elsewhere), "#stream=zones/one"
    with clean_page(browser, home, address, timezone_id=elsewhere) as page:

        def check(zone: tzinfo) -> None:
            noon = datetime.fromtimestamp(NOON / 1_000, zone).strftime("%Y-%m-%d %H:%M:%S")
            fact = page.locator(".facts").get_by_text("complete up to")
            expect(fact).to_have_text(f"complete up to {noon}.000")
            night = page.get_by_role("link", name="last night")
            day = now.astimezone(zone).date()
            expect(night).to_have_attribute("href", re.compile(f"night={day}"))

        check(UTC)
        page.get_by_role("button", name="UTC").click()
        check(local)
        page.reload()
        expect(page.get_by_role("button", name="local")).to_be_visible()


def test_a_browser_that_keeps_nothing_shows_it_all_the_same(
    browser: Browser, home: str
) -> None:
    with clean_page(browser, home) as page:
        blocked = "{get() { throw new DOMException('', 'SecurityError') }}"
        for one in ("localStorage", "sessionStorage"):
            page.add_init_script(f"Object.defineProperty(window, '{one}', {blocked})")
        page.reload()
        page.get_by_role("button", name="UTC").click()
        expect(page.get_by_role("button", name="local")).to_be_visible()
        page.get_by_role("button", name="Light or dark").click()
        expect(page.locator("html[data-theme=dark]")).to_have_count(1)
        expect(page.locator("body")).to_have_css("background-color", "rgb(12, 20, 27)")


def test_a_hidden_tab_asks_nothing(browser: Browser, home: str, open_shop: Open) -> None:
    open_shop()

    def count(page: Page) -> list[str]:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        return asked

    with clean_page(browser, home) as hidden, clean_page(browser, home) as seen:
        for page in (hidden, seen):
            expect(page.get_by_role("row").first).to_be_visible()
        hidden.evaluate(
            "Object.defineProperty(document, 'hidden', {value: true, writable: true})"
        )
        hidden.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        of_hidden, of_seen = count(hidden), count(seen)
        with seen.expect_request("**/v1/streams*"):
            pass
        with seen.expect_request("**/v1/streams*"):
            pass
        assert len(of_seen) >= 2
        assert of_hidden == []
        with hidden.expect_request("**/v1/streams*"):
            hidden.evaluate("document.hidden = false")
            hidden.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def test_a_page_of_another_version_is_loaded_anew_once(browser: Browser, home: str) -> None:
    loads: list[str] = []

    def answer(route: Route) -> None:
        if route.request.resource_type == "document":
            loads.append(route.request.url)
            route.continue_()
            return
        said: dict[str, Any] = route.fetch().json()
        route.fulfill(
            body=json.dumps(said | {"version": "9.9"}), content_type="application/json"
        )

    with clean_page(browser, home) as page:
        page.route(home, answer)
        with page.expect_event("load", lambda _: len(loads) == 2):
            page.reload()
        expect(page.locator(".version")).to_have_text("9.9")
        assert len(loads) == 2
