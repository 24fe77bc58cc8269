"""Takes pictures of every view of the page on a demo set: light and dark, on a desk and on a phone.

``make screenshots``, or ``python scripts/screenshots.py DIRECTORY``; it takes ten minutes. Look at
them. ``page-streams.png`` and ``page-stream.png`` are for ``docs/``.
"""

import argparse
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
from playwright.sync_api import Browser, Page, sync_playwright

_HERE = Path(__file__).parent
_HISTORY_S = 300
"""What the chart of a stream shows at first."""
_HELD = "city/rides"
_HELD_WITHIN_S = 180
_VIEWS = {
    "streams": "",
    "stream": f"#stream={_HELD}",
    "hour": f"#stream={_HELD}&span=3600000",
    "age": f"#stream={_HELD}&view=age",
    "held": "#state=held",
    "nothing": "#q=nothing",
    "sorted": "#sort=writers",
    "segments": "#stream=demo/scaled&tab=segments",
    "external": "#stream=iot/meters&tab=segments",
    "marks": "#stream=shop/orders&tab=marks",
    "transactions": "#stream=shop/payments&tab=transactions",
    "readers": f"#stream={_HELD}&tab=readers",
    "settings": "#stream=shop/payments&tab=settings",
    "logical": "#stream=lab/steps",
    "backfill": "#stream=lab/backfill",
    "seconds": "#stream=iot/seconds",
    "ended": "#stream=shop/returns",
    "unused": "#stream=shop/unused",
    "quiet": "#stream=shop/night",
    "groups": "#show=groups",
    "group": "#group=city/billing",
    "query": "#group=shop/reports",
    "nobody": "#group=city/forgotten",
    "help": "#show=help",
}
_IN_DOCS = {"streams", "stream"}
_SETTLE_MS = 2_000
_LOOKS = {
    "light": ("light", 1_280, 900),
    "dark": ("dark", 1_280, 900),
    "phone": ("light", 390, 780),
    "phone-dark": ("dark", 390, 780),
}


def main() -> None:
    """Start services and the set, and look at all views."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path, help="where the pictures go")
    into = parser.parse_args().directory
    into.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        tokens = str(work / "tokens.toml")
        grant = ["token", "new", "viewer", "--grant", "*:observe", "--tokens", tokens]
        with _running("-m", "tidegauge_cli", *grant) as made:
            made.wait()
        with _serving(work / "guarded.db", "--tokens", tokens) as url:
            _take_all(browser, url, into, {"token": ""})
        serving = stack.enter_context(ExitStack())
        url = serving.enter_context(_serving(work / "demo.db"))
        _take_all(browser, url, into, {"first": ""})
        serving.enter_context(_running(str(_HERE / "page_demo.py"), url))
        time.sleep(_HISTORY_S)
        _take_all(browser, url, into, _VIEWS, held=True)
        left = {look: _open(browser, look, url) for look in _LOOKS}
        serving.close()
        for look, page in left.items():
            page.get_by_role("alert").wait_for()
            page.screenshot(path=into / f"outage-{look}.png")
        browser.close()


def _take_all(
    browser: Browser, url: str, into: Path, views: dict[str, str], *, held: bool = False
) -> None:
    for look in _LOOKS:
        if held:  # it is for some time of every two minutes
            _wait_until(lambda: _state_of(url) == "held", _HELD_WITHIN_S)
        page = _open(browser, look, url)
        for name, address in views.items():
            page.goto(f"{url}/{address}")
            page.locator("h1").first.wait_for()
            page.wait_for_timeout(_SETTLE_MS)
            page.screenshot(path=into / f"{name}-{look}.png", full_page=True)
            if look == "light" and name in _IN_DOCS:
                page.screenshot(
                    path=into / f"page-{name}.png",
                    full_page=True,
                    clip={"x": 0, "y": 0, "width": 1_280, "height": 1_000},
                )
        page.context.close()


def _open(browser: Browser, look: str, url: str) -> Page:
    scheme, width, height = _LOOKS[look]
    page = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if scheme == "dark" else "light",
    ).new_page()
    page.goto(f"{url}/")
    page.locator("h1").first.wait_for()
    return page


def _state_of(url: str) -> str:
    answer = httpx.get(f"{url}/v1/streams/{_HELD}/watermark").raise_for_status()
    state: str = answer.json()["judged"]["state"]
    return state


@contextmanager
def _serving(database: Path, *options: str) -> Iterator[str]:
    """Run a service; gives its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    serve = ["-m", "tidegauge_cli", "serve", "--port", str(port), "--log-level=warning"]
    with _running(*serve, f"--database-url=sqlite:///{database}", *options):
        _wait_until(lambda: _is_ready(url), 60)
        yield url


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz").is_success
    except httpx.TransportError:
        return False


def _wait_until(condition: Callable[[], bool], within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"waited {within_s:.0f} s in vain")
        time.sleep(0.1)


@contextmanager
def _running(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, *command])  # noqa: S603 (our own)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
