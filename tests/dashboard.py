"""The dashboard as tests see it: its process; and pages, also of the service, in a real browser."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

from tests.patience import PATIENCE_S, wait_until
from tests.server import free_port, is_well

CHROMIUM = Path("/usr/bin/chromium")
_HELD_AFTER_S = "1"


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's Chromium, which reaches this machine and nothing else."""
    assert CHROMIUM.exists(), "there is no Chromium; get it with: apt-get install chromium"
    offline = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", offline]
        )
        yield browser
        browser.close()


class DashboardProcess:
    """``tidegauge ui`` in a process of its own, on a free port; held begins after a second."""

    def __init__(self, directory: Path, url: str, *options: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/"
        self.log = directory / f"dashboard-{self.port}.log"
        self._command = [sys.executable, "-m", "tidegauge_cli", "ui", "--url", url]
        self._command += ["--port", str(self.port), "--held-after", _HELD_AFTER_S, *options]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, cwd=Path(__file__).parents[1]
            )
        wait_until(self._answers)
        return self

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log.read_text()
        return is_well(f"{self.url}healthz")

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGTERM)
        self._process.wait(PATIENCE_S)


@contextmanager
def clean_page(browser: Browser, home: str, address: str = "") -> Iterator[Page]:
    """Open a page; at the end nothing was asked for elsewhere, and nothing was said in its console.

    Its Content-Security-Policy would complain there of any inline script.
    """
    page = browser.new_page()
    page.set_default_timeout(PATIENCE_S * 1_000)
    foreign: list[str] = []
    complaints: list[str] = []

    def note_request(request: Request) -> None:
        if not request.url.startswith((home, home.replace("http", "ws", 1), "data:")):
            foreign.append(request.url)

    def note_message(message: ConsoleMessage) -> None:
        complaints.append(message.text)

    page.on("request", note_request)
    page.on("console", note_message)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(home + address)
    yield page
    page.close()
    assert (foreign, complaints) == ([], [])
