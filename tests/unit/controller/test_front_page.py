"""The page at / and its files: who gets what, by which headers, and what a program reads there."""

import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import httpx
import pytest

from controller.configuration import ServeSettings
from controller.http import front_page
from tests.service.in_process import called_in_process
from tidegauge.explain.states import LABELS

HTML = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
GERMAN = {"accept-language": "de"}


@pytest.fixture
def settings(tmp_path: Path) -> ServeSettings:
    return ServeSettings(database_url=f"sqlite:///{tmp_path / 'tidegauge.db'}")


@pytest.fixture
def client(settings: ServeSettings) -> Iterator[httpx.Client]:
    with called_in_process(settings) as client:
        yield client


def test_a_browser_gets_the_page_and_a_program_gets_json(client: httpx.Client) -> None:
    for path in ("/", "/?utm_source=chat&stream=a/b"):
        page = client.get(path, headers=HTML)
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert f'<meta name="version" content="{version("tidegauge")}">' in page.text
        for accept in ("*/*", "application/json", "application/json, text/html"):
            said = client.get(path, headers={"accept": accept}).json()
            assert (said["version"], said["standby"]) == (version("tidegauge"), None)
    assert client.head("/", headers=HTML).headers["content-type"] == "text/html; charset=utf-8"


def test_json_has_the_words_and_the_settings_that_the_page_shows(client: httpx.Client) -> None:
    said = client.get("/").json()
    assert {one["state"]: one["label"] for one in said["states"]} == LABELS
    assert [one["state"] for one in said["states"]] == list(LABELS)
    held = said["states"][0]
    assert (held["tone"], held["to_blame"]) == ("amber", ["behind", "joining"])
    assert said["first_steps"][0] == "tidegauge create demo/first --url http://localhost"
    assert said["links"] == {
        "documentation": "/docs",
        "metrics": "/metrics",
        "openapi": "/openapi.json",
        "streams": "/v1/streams",
    }
    made = client.put("/v1/streams/shop/orders", json={}).json()["config"]
    assert {one["name"]: one["default"] for one in said["settings"]} == made
    assert all(one["meaning"] for one in said["settings"])


def test_the_page_loads_only_from_the_service_and_is_kept_nowhere(client: httpx.Client) -> None:
    policy = (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    of_docs = policy.replace("img-src 'self'", "img-src data: 'self'")
    assert client.get("/", headers=HTML).headers["content-security-policy"] == policy
    assert client.get("/docs").headers["content-security-policy"] == of_docs
    for path in ("/", "/docs", "/ui/app.js", "/ui/vendor/uplot.css"):
        answer = client.get(path, headers=HTML)
        assert answer.headers["cache-control"] == "no-cache", path
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
    for headers in (HTML, {}):
        assert client.get("/", headers=headers).headers["vary"] == "accept"
    script = client.get("/ui/app.js")
    assert script.headers["content-type"].startswith("text/javascript")
    again = client.get("/ui/app.js", headers={"if-none-match": script.headers["etag"]})
    assert (again.status_code, again.headers["cache-control"]) == (304, "no-cache")


def test_all_that_the_page_names_is_there_and_named_from_where_it_is(
    client: httpx.Client,
) -> None:
    """A proxy may serve it below a prefix that ends in a slash."""
    named = set()
    for path in ("/", "/docs"):
        named |= set(re.findall(r'(?:href|src)="([^"]+)"', client.get(path, headers=HTML).text))
    for script in front_page.FILES.glob("*.js"):
        text = script.read_text("utf-8")
        named |= {f"ui/{name}" for name in re.findall(r'from "\./([^"]+)"', text)}
        named |= set(re.findall(r'"(ui/[^"]+)"', text))
        assert not re.findall(r"""["'`]/(?:v1|ui|docs)""", text), script
    assert len(named) > 12
    for name in named:
        assert client.get(f"/{name}").is_success, name


@pytest.mark.parametrize("path", ["/", "/ui/app.js", "/v1/streams"])
def test_a_browser_calls_an_open_service_by_an_address_or_a_name_that_was_given(
    settings: ServeSettings, path: str
) -> None:
    """A page of another site may have its own name mean the machine of the service."""
    is_open = {"insecure": True, "browser_hosts": "other.example, Gauge.example"}
    with called_in_process(settings.model_copy(update=is_open)) as client:

        def status(host: str, **headers: str) -> int:
            return client.get(path, headers={"host": host, **headers}).status_code

        for host in ("10.0.0.5:8470", "[fd00::1]:8470", "localhost", "gauge.example:8470"):
            assert status(host, **GERMAN) == 200, host
        for host in ("evil.example", "10.0.0.5.evil.example", "gauge.example.evil.example"):
            assert status(host, **GERMAN) == 421, host
        assert status("tidegauge:8470") == 200  # a program, which no page can make call
    with called_in_process(
        settings.model_copy(update=is_open | {"browser_hosts": "*"})
    ) as any_name:
        assert any_name.get(path, headers={"host": "evil.example", **GERMAN}).is_success


def test_a_page_of_another_site_changes_nothing_in_an_open_service(
    settings: ServeSettings,
) -> None:
    """To an address without TLS its browser does not say whose page it is: it names the origin."""
    with called_in_process(settings.model_copy(update={"insecure": True})) as client:
        here = {"host": "10.0.0.5:8470"}
        client.put("/v1/streams/shop/orders", json={}, headers=here).raise_for_status()
        register = "/v1/streams/shop/orders/writers/mallory/register"
        for origin in ("http://evil.example", "null", "https://10.0.0.5:8470"):
            refused = client.post(register, headers=here | {"origin": origin})
            assert refused.status_code == 415, origin
        for more in ({}, {"origin": "http://10.0.0.5:8470"}):
            assert client.post(register, headers=here | more).is_success, more
