"""Fixtures for everybody: real server processes, and a real PostgreSQL."""

import gc
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import httpx
import pytest
from xdist.remote import Producer

from tests import effort as efforts
from tests.broker import Broker
from tests.effort import Effort
from tests.groups import Groups, name_group, rank_of
from tests.patience import PATIENCE_S
from tests.postgres import Cluster, running_cluster
from tests.server import ServerProcess

NewDatabase = Callable[[Path], str]
"""Makes a database of its own, in a directory if it is a file, and returns its address."""


class NewServer(Protocol):
    """Makes a server with an empty database of its own, for the test to start."""

    def __call__(self, **options: Any) -> ServerProcess:
        """Take what a `ServerProcess` takes further."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the long forms of tests be asked for."""
    parser.addoption(
        "--soak", action="store_true", help="run the long form of tests, no others"
    )
    parser.addoption(
        "--on-postgresql",
        action="store_true",
        help="run on PostgreSQL what otherwise runs on SQLite alone, nothing else",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Set what holds for all tests: how often they try, how long they wait, and Ctrl-C.

    Processes that tests start end at it, though a shell's background jobs do not.
    """
    efforts.load_profile(soaks=config.getoption("--soak"))
    # Of each call without a timeout of its own; 5 s are too few for a busy machine.
    httpx._config.DEFAULT_TIMEOUT_CONFIG.read = PATIENCE_S
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests about SQL on both databases, and all tests of the service if asked for."""
    name_group(metafunc)
    if "database_kind" in metafunc.fixturenames:
        of_one = metafunc.definition.get_closest_marker("only_on")
        options, parts = metafunc.config.option, {*metafunc.definition.path.parts}
        is_of_service = {"unit", "stories", "faults"} & parts and "spark" not in parts
        on_both = is_of_service and (options.soak or options.on_postgresql)
        if metafunc.definition.get_closest_marker("about_sql"):
            on_both = True
        kinds = ["sqlite", "postgresql"] if on_both else ["sqlite"]
        metafunc.parametrize(
            "database_kind", [of_one.args[0]] if of_one else kinds, scope="session"
        )


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Groups:
    """Let one worker run all tests that need Spark or Kafka, another one those of PostgreSQL.

    Of the rest it runs a file as a whole, whose tests may share a server.
    """
    return Groups(config, log)


def pytest_collection_finish() -> None:
    """Spare each search for garbage what was imported and collected, which stays to the end."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)  # Hypothesis marks its tests before
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose what has a long form, or what has a short one."""
    run = "soak" if config.getoption("--soak") else "short"
    if config.getoption("--on-postgresql"):
        run = "on-postgresql"
    chosen = {item: run in _runs_of(item) for item in items}
    config.hook.pytest_deselected(items=[item for item in items if not chosen[item]])
    items[:] = sorted(filter(chosen.get, items), key=lambda item: rank_of(item.nodeid))


def _runs_of(item: pytest.Item) -> Iterator[str]:
    """Name the runs that a test takes part in."""
    is_short = item.get_closest_marker("soak") is None
    kind = getattr(item, "callspec", None) and item.callspec.params.get("database_kind")  # type: ignore[attr-defined]
    both = item.get_closest_marker("about_sql") or item.get_closest_marker("only_on")
    is_asked_for = kind == "postgresql" and not both
    tries = "effort" in getattr(item, "fixturenames", ())
    if is_short:
        yield "short"
    if is_short and is_asked_for:
        yield "on-postgresql"
    if not is_short or is_asked_for or tries or item.get_closest_marker("hypothesis"):
        yield "soak"


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Tell what a run of the long forms tried."""
    if not config.getoption("--soak"):
        return
    terminalreporter.section("tried")
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            tried = efforts.told(report.user_properties)
            if report.when == "call" and tried:
                said = ", ".join(map(str, tried))
                line = f"{report.nodeid}: {said} in {report.duration:.0f} s, {outcome}"
                terminalreporter.write_line(line)


@pytest.fixture
def effort(
    request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> Effort:
    """How often a test that has a long form tries."""
    return Effort(record_property, soaks=request.config.getoption("--soak"))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A PostgreSQL server, which tests make databases on."""
    with running_cluster() as running:
        yield running


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A Kafka broker for tests that need topics with names of their own; who stops it starts it again."""
    with Broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="session")
def database_kind() -> str:
    """Of which kind databases are; the tests of the service have both."""
    return "sqlite"


@pytest.fixture(scope="session")
def new_database(database_kind: str, request: pytest.FixtureRequest) -> NewDatabase:
    """Databases of the kind that is asked for."""
    if database_kind == "postgresql":
        cluster = request.getfixturevalue("cluster")
        return lambda _directory: str(cluster.database())
    return lambda directory: f"sqlite:///{directory / 'tidegauge.db'}"


@pytest.fixture(scope="session")
def new_server(
    tmp_path_factory: pytest.TempPathFactory, new_database: NewDatabase
) -> NewServer:
    """Servers with databases of the kind that is asked for."""

    def make(**options: Any) -> ServerProcess:
        directory = tmp_path_factory.mktemp("server")
        return ServerProcess(directory, database_url=new_database(directory), **options)

    return make


@pytest.fixture
def database_url(tmp_path: Path, new_database: NewDatabase) -> str:
    """The address of an empty database."""
    return new_database(tmp_path)


@pytest.fixture
def server(tmp_path: Path, database_url: str) -> Iterator[ServerProcess]:
    """A server with an empty database of its own."""
    with ServerProcess(tmp_path, database_url=database_url) as running:
        yield running


@pytest.fixture(scope="session")
def shared_servers() -> Iterator[dict[str, ServerProcess]]:
    """Those that run for all modules, by the kind of their database."""
    servers: dict[str, ServerProcess] = {}
    yield servers
    for one in servers.values():
        one.kill()


@pytest.fixture(scope="session")
def shared_server(
    database_kind: str, new_server: NewServer, shared_servers: dict[str, ServerProcess]
) -> ServerProcess:
    """One server for all tests that only need a stream with a name of its own."""
    if database_kind not in shared_servers:
        shared_servers[database_kind] = new_server()
        shared_servers[database_kind].start()
    return shared_servers[database_kind]
