"""The page of a service in a real browser, and a night for it to show."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Page,
    Request,
    Response,
    expect,
    sync_playwright,
)

from tests.patience import PATIENCE_S
from tests.server import ServerProcess
from tests.service.api import MINUTE, Api

expect.set_options(timeout=PATIENCE_S * 1_000)
CHROMIUM = Path("/usr/bin/chromium")
HOUR = 60 * MINUTE
_STEP = 5 * MINUTE
_AWAY = re.compile(
    r"Failed to load resource: (net::ERR_|the server responded with a status of)"
)
"""What Chromium itself says of a call that is not answered; no page can keep it from that."""


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


@contextmanager
def clean_page(
    browser: Browser, home: str, address: str = "", *, refused: bool = False, **options: Any
) -> Iterator[Page]:
    """Open a page; at the end it asked nobody else, and nothing was said in its console.

    Its Content-Security-Policy would complain there of any inline script. ``refused``: some of
    its calls are to be refused, or not to be answered. ``options`` are those of a browser's page.
    """
    page = browser.new_page(**options)
    page.set_default_timeout(PATIENCE_S * 1_000)
    foreign: list[str] = []
    complaints: list[str] = []

    def note_url(asked: Request | Response) -> None:
        if not asked.url.startswith((home, "data:")):
            foreign.append(asked.url)

    def note_request(request: Request) -> None:
        if request.redirected_from is None:  # one that is sent elsewhere is not followed
            note_url(request)

    def note_message(message: ConsoleMessage) -> None:
        if not (refused and _AWAY.match(message.text)):
            complaints.append(message.text)

    page.on("request", note_request)
    page.on("response", note_url)
    page.on("console", note_message)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(home + address)
    yield page
    page.close()
    assert not foreign + complaints, (foreign, complaints)


def seed_night(server: ServerProcess, api: Api, morning_ms: int) -> None:
    """Store the night before a morning: a mark every 5 minutes, but for two times in between.

    From 03:00 to 03:40 of UTC `gateway-7` and one more held the watermark, from 05:30 to 05:45
    `gateway-9` alone. The service makes the marks, and is stopped to have them made that night.
    """
    midnight_ms = morning_ms - morning_ms % (24 * HOUR)
    stalls = [
        (3 * HOUR, 40 * MINUTE, "gateway-7", 1),
        (5 * HOUR + 30 * MINUTE, 15 * MINUTE, "gateway-9", 0),
    ]
    began = [midnight_ms - 6 * HOUR + n * _STEP for n in range(14 * HOUR // _STEP)]
    held = {
        midnight_ms + since + n * _STEP
        for since, long, *_ in stalls
        for n in range(1, long // _STEP)
    }
    at = [ms for ms in began if ms not in held]
    for number, ms in enumerate(at):
        api.note("gateway-1", ms - MINUTE, number)
    server.stop()
    key = "(SELECT key FROM streams WHERE scope || '/' || stream = ?)"
    with sqlite3.connect(server.database) as database:
        for revision, ms in enumerate(at, 1):
            database.execute(
                f"UPDATE marks SET created_ms = ? WHERE revision = ? AND stream_key = {key}",
                (ms, revision, api.name),
            )
        for number, (since, long, writer, others) in enumerate(stalls, 1):
            since_ms = midnight_ms + since
            until_ms = since_ms + long
            row = (
                number,
                since_ms,
                until_ms,
                since_ms,
                long,
                since_ms - MINUTE,
                until_ms - MINUTE,
            )
            database.execute(
                f"INSERT INTO holds VALUES ({key}, {', '.join('?' * 13)})",
                (api.name, *row, writer, others, MINUTE, True, 0, "noted"),
            )
    database.close()
    server.start()
