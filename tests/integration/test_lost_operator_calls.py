"""What operators may have done is logged with their name, whoever is lost on the way."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.integration.controllers import SETTINGS, Controllers, controllers
from tests.integration.problems import check_problem
from tests.patience import PATIENCE_S, wait_until
from tests.postgres import Cluster
from tests.server import LAUNCHER, ServerProcess
from tests.tokens import Tokens

pytestmark = pytest.mark.only_on("postgresql", "only there calls are passed on")

STREAM = "flights/departures"
PATH = f"/v1/streams/{STREAM}"
LOST = f"caller=alice method=DELETE path={PATH} status=502 stream={STREAM}"
WAITING = (
    "SELECT 1 FROM pg_stat_activity "
    "WHERE datname = current_database() AND wait_event_type = 'Lock'"
)
LOSING = """
from controller import lifecycle
from tidegauge.errors import OutcomeUnknownError

def lose(*args, **more):
    raise OutcomeUnknownError("the connection is lost")

lifecycle.delete_stream = lose
"""
Header = dict[str, str]


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path)


@pytest.fixture
def alice(tokens: Tokens) -> Header:
    """Show that one is an operator."""
    return tokens.header("alice", "flights", "operate")


@pytest.fixture
def two(
    cluster: Cluster,
    tmp_path: Path,
    tokens: Tokens,
    alice: Header,
    request: pytest.FixtureRequest,
) -> Iterator[Controllers]:
    """Two controllers, one of which holds the stream."""
    launcher = getattr(request, "param", LAUNCHER)
    with controllers(cluster, tmp_path, 2, tokens=tokens.file, launcher=launcher) as both:
        url = f"{both.servers[0].url}{PATH}"
        httpx.put(url, json=SETTINGS, headers=alice, timeout=20).raise_for_status()
        yield both


def _pair(two: Controllers) -> tuple[ServerProcess, ServerProcess]:
    holder = two.holder_of(STREAM)
    (other,) = (one for one in two.servers if one is not holder)
    return holder, other


def _delete(server: ServerProcess, header: Header) -> httpx.Response:
    return httpx.delete(server.url + PATH, headers=header, timeout=PATIENCE_S)


def _deletions(server: ServerProcess) -> list[str]:
    return re.findall(r"operator call.* (caller=\S+ method=DELETE .*)", server.log.read_text())


def test_what_was_passed_on_to_a_controller_that_dies_is_logged_by_who_passed_it_on(
    two: Controllers, alice: Header
) -> None:
    holder, other = _pair(two)
    with two.connect() as locking, ThreadPoolExecutor() as pool, locking.transaction():
        locking.execute("SELECT key FROM streams FOR UPDATE")
        deleting = pool.submit(_delete, other, alice)
        wait_until(lambda: bool(two.query(WAITING)))
        holder.kill()
        check_problem(deleting.result(PATIENCE_S), 502, "outcome_unknown")
    assert _deletions(holder) == []
    assert _deletions(other) == [LOST]


@pytest.mark.parametrize("two", [LOSING + LAUNCHER], indirect=True)
def test_what_the_holder_itself_does_not_know_is_logged_by_it_alone(
    two: Controllers, alice: Header
) -> None:
    holder, other = _pair(two)
    check_problem(_delete(other, alice), 502, "outcome_unknown")
    assert _deletions(holder) == [LOST]
    assert _deletions(other) == []
