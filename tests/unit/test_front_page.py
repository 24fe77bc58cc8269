"""What a program gets at /, and a browser."""

from pathlib import Path

from controller.configuration import ServeSettings
from tests.service.in_process import called_in_process

HTML = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
LINKS = {
    "documentation": "/docs",
    "metrics": "/metrics",
    "openapi": "/openapi.json",
    "streams": "/v1/streams",
}


def test_a_program_gets_json_unless_it_asks_for_the_page(tmp_path: Path) -> None:
    settings = ServeSettings(database_url=f"sqlite:///{tmp_path / 'tidegauge.db'}")
    with called_in_process(settings) as client:
        for accept in ("*/*", "application/json", "application/json, text/html"):
            assert client.get("/", headers={"accept": accept}).json()["links"] == LINKS
        page = client.get("/", headers=HTML)
        assert page.headers["content-type"] == "text/html; charset=utf-8"
