"""Takes pictures of every page of the dashboard on a demo set: light, dark and on a phone.

``make screenshots``, or ``python scripts/screenshots.py DIRECTORY``; it takes eight minutes. Look at them.
"""

import argparse
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
from playwright.sync_api import Browser, sync_playwright

_HERE = Path(__file__).parent
_HISTORY_S = 180
_HELD = "city/rides"
_HELD_WITHIN_MS = 180_000
_WATCHED = ("", f"?stream={_HELD}", "?stream=shop/orders", "?stream=demo/scaled")
_PAGES = {
    "overview": "",
    "held": "?state=held",
    "stream": "?stream=city/rides",
    "segments": "?stream=demo/scaled&tab=segments",
    "external": "?stream=iot/meters&tab=segments",
    "marks": "?stream=shop/orders&tab=marks",
    "nobody": "?group=city/forgotten",
    "nothing": "?q=nothing",
    "readers": "?stream=city/rides&tab=readers",
    "settings": "?stream=shop/payments&tab=settings",
    "logical": "?stream=lab/steps",
    "backfill": "?stream=lab/backfill",
    "seconds": "?stream=iot/seconds",
    "ended": "?stream=shop/returns",
    "unused": "?stream=shop/unused",
    "quiet": "?stream=shop/night",
    "groups": "?show=groups",
    "help": "?show=help",
    "sorted": "?sort=-writers",
    "group": "?group=city/billing",
    "query": "?group=shop/reports",
}
_SETTLE_MS = 2_000
_LOOKS = {
    "light": ("light", 1_400, 900),
    "dark": ("dark", 1_400, 900),
    "narrow": ("light", 1_280, 900),
    "phone": ("light", 360, 780),
}


def main() -> None:
    """Start a service, the set and the dashboard, and look at all pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path, help="where the pictures go")
    into = parser.parse_args().directory
    into.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        work = stack.enter_context(tempfile.TemporaryDirectory())
        service, page = _free_port(), _free_port()
        url = f"http://127.0.0.1:{service}"
        database = f"sqlite:///{work}/demo.db"
        serve = ["-m", "tidegauge_cli", "serve", "--port", str(service), "--log-level=warning"]
        serving = stack.enter_context(ExitStack())
        serving.enter_context(_running(*serve, "--database-url", database))
        _wait_for(f"{url}/readyz")
        ui = ["-m", "tidegauge_cli", "ui", "--url", url, "--port", str(page)]
        stack.enter_context(_running(*ui))
        home = f"http://127.0.0.1:{page}/"
        _wait_for(f"{home}healthz")
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        _take_all(browser, home, into, {"first": ""})
        serving.enter_context(_running(str(_HERE / "dashboard_demo.py"), url))
        # pages that stay open keep the history of what they show
        for address in _WATCHED:
            browser.new_page().goto(home + address)
        time.sleep(_HISTORY_S)
        _take_all(browser, home, into, _PAGES, held=True)
        serving.close()
        watching = browser.new_page()
        watching.goto(home)
        watching.get_by_role("alert").wait_for()
        _take_all(browser, home, into, {"outage": ""})
        browser.close()


def _take_all(
    browser: Browser, home: str, into: Path, pages: dict[str, str], *, held: bool = False
) -> None:
    for look in _LOOKS:
        _take(browser, home, into, look, pages, held=held)


def _take(
    browser: Browser, home: str, into: Path, look: str, pages: dict[str, str], *, held: bool
) -> None:
    scheme, width, height = _LOOKS[look]
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    page = context.new_page()
    if held:  # it is for some time of every two minutes
        page.goto(f"{home}?q={_HELD}")
        page.locator("td.state").get_by_text("held", exact=True).wait_for(
            timeout=_HELD_WITHIN_MS
        )
    for name, address in pages.items():
        page.goto(home + address)
        page.locator("h1").first.wait_for()
        page.wait_for_timeout(_SETTLE_MS)
        page.screenshot(path=into / f"{name}-{look}.png", full_page=True)
    context.close()


@contextmanager
def _running(*command: str) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, *command])  # noqa: S603 (our own)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def _wait_for(url: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if httpx.get(url).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    sys.exit(f"no answer from {url}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
